// Three unlike lanes work on one tensor: cores, an OpenCL device and a vendor's runtime. Prompts in
// int8 have the bits of cores alone, whether rows, tokens or lengths are divided three ways.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "lanes/opencl/test_support.h"
#include "lanes/vendor/test_support.h"
#include "tests/support/prompt_case.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using test_support::copy_of;
using test_support::TinyEngine;
using test_support::TinyModel;
using ThreeLaneRows = std::vector<std::vector<float>>;

constexpr int kThreeLaneContext = 256;
constexpr int kThreeLaneChunk = 64;
// The lengths make a chunk with a rest, and a length whose last part is not full.
constexpr int kThreeLaneLengths[] = {kThreeLaneChunk, 2 * kThreeLaneChunk + 50, 70, 75};

prepare::Options three_lane_options() {
  prepare::Options options;
  options.memory.context = kThreeLaneContext;
  options.memory.has_side_files = false;
  options.prompts.chunk = kThreeLaneChunk;
  options.prompts.prefill = plan::Prefill::kInt8;
  options.prompts.int8 = plan::Int8Method::kToken;
  return options;
}

void add_three_lanes(prepare::Options* options) {
  options->lanes.cores = {{{}, 1}, {{}, 0, "opencl"}, {{}, 0, "openvino"}};
  options->lanes.cores[1].device = "0";
  options->lanes.cores[2].device = "CPU";
}

ThreeLaneRows rows_of_three_lanes(Engine& engine, const TinyModel& model) {
  ThreeLaneRows rows;
  for (const int length : kThreeLaneLengths) {
    Session session(engine);
    session.prefill(test_support::random_tokens(model, static_cast<size_t>(length), 5));
    rows.push_back(copy_of(session.logits()));
    session.append(test_support::random_tokens(model, 1, 6)[0]);
    rows.push_back(copy_of(session.logits()));
  }
  return rows;
}

// Returns the lanes that work on a subgraph of the first block in prompts of whole chunks.
std::vector<int> lanes_of(const Engine& engine, const std::string& name) {
  std::vector<int> lanes;
  for (const schedule::Task& task :
       engine.graphs().body(plan::Phase::kPrompt, kThreeLaneChunk).tasks) {
    if (task.name == name && task.block == 0) lanes.push_back(task.lane);
  }
  std::sort(lanes.begin(), lanes.end());
  lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
  return lanes;
}

struct ThreeLaneCase {
  const char* name;
  std::vector<const char*> cuts, lengths;
};
const ThreeLaneCase kThreeUnlikeCases[] = {
    {"rows of all products", {"@prompt=rows:0:2,1:1,2:1"}, {}},
    {"tokens of products", {"qkv@prompt:64-64=tokens:2:32,1:16,0:16"}, {}},
    {"rows beside tokens", {"qkv@prompt:64-64=rows:0:1,2:1+tokens:2:48,1:16"}, {}},
    {"lengths", {}, {"2:48,1:16,0:12"}},
};

class OpenclBesideVendor : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const lanes::openvino::FoundLibrary library = lanes::openvino::find_library();
    const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
    // Whoever names both runtimes wants to know where one is broken.
    if (std::getenv("TROIKA_OPENVINO") != nullptr && std::getenv("TROIKA_OPENCL") != nullptr) {
      ASSERT_EQ(library.problem + found.problem, "");
    }
    if (library.library == nullptr) GTEST_SKIP() << library.problem;
    if (found.device == nullptr) GTEST_SKIP() << found.problem;
  }
};

TEST_P(OpenclBesideVendor, H10ThreeUnlikeLanesOnOneTensorHaveTheBitsOfCores) {
  TinyModel model = test_support::small_model(GetParam());
  model.type = test_support::kQ8_0;
  model.context = kThreeLaneContext;
  TinyEngine alone(model, three_lane_options());
  const ThreeLaneRows expected = rows_of_three_lanes(*alone.engine, model);
  for (const ThreeLaneCase& c : kThreeUnlikeCases) {
    // Tokens that choose experts are no part of a static graph, so no length goes to the runtime.
    if (!c.lengths.empty() && model.n_experts > 0) continue;
    SCOPED_TRACE(c.name);
    prepare::Options options = three_lane_options();
    add_three_lanes(&options);
    for (const char* text : c.cuts) options.lanes.cuts.push_back(plan::cut_from_text(text));
    for (const char* text : c.lengths) {
      options.lanes.lengths.push_back(plan::length_from_text(text));
    }
    TinyEngine shared(model, options);
    if (!c.cuts.empty()) {
      EXPECT_EQ(lanes_of(*shared.engine, "qkv"), std::vector({0, 1, 2}));
    }
    EXPECT_TRUE(rows_of_three_lanes(*shared.engine, model) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpenclBesideVendor,
                         testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troika
