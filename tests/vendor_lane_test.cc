// Prompts in int8 whose static subgraphs a vendor's runtime computes, or shares with cores by rows
// or by tokens, have the bits of cores alone, in every architecture.
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
using Row = std::vector<float>;

constexpr int kVendorContext = 256;
constexpr int kVendorChunk = 64;
// The lengths make a chunk with a short rest, a length whose last part is not full, and chunks with
// a length.
constexpr int kVendorLengths[] = {70, 75, 2 * kVendorChunk + 50};

TinyModel vendor_model(const std::string& architecture) {
  TinyModel model = test_support::small_model(architecture);
  model.type = test_support::kQ8_0;
  model.context = kVendorContext;
  return model;
}

prepare::Options vendor_options() {
  prepare::Options options;
  options.memory.context = kVendorContext;
  options.prompts.chunk = kVendorChunk;
  options.prompts.prefill = plan::Prefill::kInt8;
  options.prompts.int8 = plan::Int8Method::kToken;
  return options;
}

std::vector<Row> rows_behind(Engine& engine, const TinyModel& model) {
  std::vector<Row> rows;
  for (const int length : kVendorLengths) {
    Session session(engine);
    session.prefill(test_support::random_tokens(model, static_cast<size_t>(length), 5));
    rows.push_back(copy_of(session.logits()));
    session.append(test_support::random_tokens(model, 1, 6)[0]);
    rows.push_back(copy_of(session.logits()));
  }
  return rows;
}

int n_tasks_on_vendor(const Engine& engine) {
  int n = 0;
  for (const schedule::TaskList& list : engine.graphs().bodies()) {
    for (const schedule::Task& task : list.tasks) n += task.lane == 1 ? 1 : 0;
  }
  return n;
}

struct VendorCase {
  const char* name;
  std::vector<const char*> places, cuts, lengths;
};
const VendorCase kVendorCases[] = {
    {"whole subgraphs", {"embed@prompt=1", "qkv@prompt=1", "ffn@prompt=1"}, {}, {}},
    {"rows of all products", {}, {"@prompt=rows:0:1,1:2"}, {}},
    {"rows of a subgraph that is the vendor's", {"qkv@prompt=1"}, {"qkv@prompt=rows:1:2,0:1"}, {}},
    {"lengths", {}, {}, {"1:64,0:12"}},
};

class VendorPrompts : public testing::TestWithParam<std::string> {};

TEST_P(VendorPrompts, HaveTheBitsOfCores) {
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const TinyModel model = vendor_model(GetParam());
  TinyEngine alone(model, vendor_options());
  const std::vector<Row> expected = rows_behind(*alone.engine, model);
  for (const VendorCase& c : kVendorCases) {
    SCOPED_TRACE(c.name);
    prepare::Options options = vendor_options();
    options.lanes.cores = {{{}, 1}, {{}, 0, "openvino"}};
    options.lanes.cores[1].device = "CPU";
    for (const char* text : c.places) {
      plan::Placement place = plan::placement_from_text(text);
      // A mixture's FFN is not static, because each token chooses its experts.
      if (model.n_experts > 0 && place.subgraph == "ffn") continue;
      options.lanes.placements.push_back(place);
    }
    for (const char* text : c.cuts) options.lanes.cuts.push_back(plan::cut_from_text(text));
    for (const char* text : c.lengths) {
      if (model.n_experts > 0) continue;
      options.lanes.lengths.push_back(plan::length_from_text(text));
    }
    TinyEngine shared(model, options);
    const bool is_shared = !c.places.empty() || !c.cuts.empty() || model.n_experts == 0;
    EXPECT_EQ(n_tasks_on_vendor(*shared.engine) > 0, is_shared);
    EXPECT_TRUE(rows_behind(*shared.engine, model) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, VendorPrompts, testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

TEST(VendorPromptsOfALlama, StepsAndAttentionAreRefusedInSentences) {
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  for (const char* place : {"attention@prompt=1", "ffn=1", "head=1"}) {
    prepare::Options options = vendor_options();
    options.lanes.cores = {{{}, 1}, {{}, 0, "openvino"}};
    options.lanes.cores[1].device = "CPU";
    options.lanes.placements = {plan::placement_from_text(place)};
    try {
      const TinyEngine engine(vendor_model("llama"), options);
      ADD_FAILURE() << place << ": no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("static graphs"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace troika
