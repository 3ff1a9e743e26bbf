// Prompts whose static subgraphs a vendor's runtime computes, or shares with cores by rows or by
// tokens, in every architecture: in int8 they have the bits of cores alone, in bf16 (H13) they are
// near the reference, and the same in any chunks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lanes/vendor/test_support.h"
#include "tests/support/greedy.h"
#include "tests/support/logits.h"
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

prepare::Options vendor_options(plan::Prefill prefill = plan::Prefill::kInt8) {
  prepare::Options options;
  options.memory.context = kVendorContext;
  options.prompts.chunk = kVendorChunk;
  options.prompts.prefill = prefill;
  if (prefill == plan::Prefill::kInt8) options.prompts.int8 = plan::Int8Method::kToken;
  return options;
}

void add_vendor_lane(prepare::Options* options) {
  options->lanes.cores = {{{}, 1}, {{}, 0, "openvino"}};
  options->lanes.cores[1].device = "CPU";
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

void place(const std::vector<const char*>& places, const TinyModel& model,
           prepare::Options* options) {
  for (const char* text : places) {
    const plan::Placement place = plan::placement_from_text(text);
    // A mixture's FFN is not static, because each token chooses its experts.
    if (model.n_experts > 0 && place.subgraph == "ffn") continue;
    options->lanes.placements.push_back(place);
  }
}

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
    add_vendor_lane(&options);
    place(c.places, model, &options);
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

TEST_P(VendorPrompts, SayTheSameAsOnCores) {
  constexpr int kGreedyTokens = 30;
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const TinyModel model = vendor_model(GetParam());
  TinyEngine on_cores(model, vendor_options());
  prepare::Options options = vendor_options();
  add_vendor_lane(&options);
  place(kVendorCases[0].places, model, &options);
  TinyEngine shared(model, options);
  const auto prompt = test_support::random_tokens(model, kVendorChunk, 5);
  EXPECT_EQ(
      test_support::greedy_agreement(*on_cores.session, *shared.session, prompt, kGreedyTokens)
          .n_equal,
      kGreedyTokens);
}

// Activations, keys and values stay floats, so that what is left is what bf16 rounds.
prepare::Options bf16_options() {
  prepare::Options options = vendor_options(plan::Prefill::kBf16);
  options.activations = plan::Activations::kF32;
  options.memory.kv_type = tensor::Type::kF32;
  add_vendor_lane(&options);
  return options;
}

TEST_P(VendorPrompts, H13_InBf16AreNearTheReference) {
  constexpr double kBound = 5e-2;  // as for cores (tests/logits_test.cc)
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const TinyModel model = vendor_model(GetParam());
  const auto tokens = test_support::random_tokens(model, 2 * kVendorChunk + 11, 5);
  const auto judge = test_support::reference_logits(model, tokens);
  for (const VendorCase& c : kVendorCases) {
    if (!c.lengths.empty()) continue;  // refused, below
    SCOPED_TRACE(c.name);
    prepare::Options options = bf16_options();
    place(c.places, model, &options);
    for (const char* text : c.cuts) {
      options.lanes.cuts.push_back(plan::cut_from_text(text));
      options.lanes.cuts.back().mixes_classes = true;
    }
    TinyEngine shared(model, options);
    EXPECT_GT(n_tasks_on_vendor(*shared.engine), 0);
    const auto logits = test_support::engine_logits(*shared.session, tokens);
    EXPECT_LE(test_support::rounded_error(model, logits, judge), kBound);
  }
}

TEST_P(VendorPrompts, H13_InBf16HaveTheSameBitsInAnyChunks) {
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const TinyModel model = vendor_model(GetParam());
  // No chunks leave a rest so short that it is taken in steps, which are a class of their own.
  const auto tokens = test_support::random_tokens(model, 2 * kVendorChunk - 1, 5);
  std::vector<Row> expected;
  for (const int chunk : {kVendorChunk, 45, 43, 2 * kVendorChunk}) {
    prepare::Options options = bf16_options();
    options.prompts.chunk = chunk;
    place(kVendorCases[0].places, model, &options);
    TinyEngine tiny(model, options);
    std::vector<Row> rows;
    tiny.session->prefill(tokens);
    rows.push_back(copy_of(tiny.session->logits()));
    tiny.session->append(3);
    rows.push_back(copy_of(tiny.session->logits()));
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(rows == expected) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, VendorPrompts, testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

TEST(VendorPromptsOfALlama, StepsAndAttentionAreRefusedInSentences) {
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  for (const char* place : {"attention@prompt=1", "ffn=1", "head=1"}) {
    prepare::Options options = vendor_options();
    add_vendor_lane(&options);
    options.lanes.placements = {plan::placement_from_text(place)};
    try {
      const TinyEngine engine(vendor_model("llama"), options);
      ADD_FAILURE() << place << ": no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("static graphs"), std::string::npos) << error.what();
    }
  }
}

TEST(VendorPromptsOfALlama, H13_PartsInBf16AreRefusedUnlessThePlanMixesClasses) {
  const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  for (const bool is_cut : {true, false}) {
    prepare::Options options = bf16_options();
    if (is_cut) {
      options.lanes.cuts = {plan::cut_from_text("@prompt=rows:0:1,1:2")};
    } else {
      options.lanes.lengths = {plan::length_from_text("1:64,0:12")};
    }
    try {
      const TinyEngine engine(vendor_model("llama"), options);
      ADD_FAILURE() << is_cut << ": no error";
    } catch (const Error& error) {
      const char* const what = is_cut ? "mixes_classes" : "which tokens it has";
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace troika
