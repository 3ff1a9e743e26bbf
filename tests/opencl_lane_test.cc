// Models of every architecture run on an OpenCL device: in floats near the results of cores, and
// prompts in int8 with the bits of cores, alone and shared with them by rows or by tokens.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/drafting/drafting.h"
#include "engine/generate.h"
#include "engine/memory/taken_memory.h"
#include "lanes/opencl/test_support.h"
#include "prepare/device_memory.h"
#include "prepare/memory.h"
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
using Logits = std::vector<std::vector<float>>;

constexpr int kOpenclContext = 256;
constexpr int kOpenclChunk = 32;

TinyModel opencl_model(const std::string& architecture, uint32_t type) {
  TinyModel model = test_support::small_model(architecture);
  model.type = type;
  model.context = kOpenclContext;
  return model;
}

prepare::Options opencl_options(plan::Prefill prefill) {
  prepare::Options options;
  options.memory.context = kOpenclContext;
  options.memory.has_side_files = false;  // tests keep no programs in somebody's folder
  // Keys and values stay in float, because halves may round values that differ a little to values
  // that differ more.
  options.memory.kv_type = tensor::Type::kF32;
  options.prompts.chunk = kOpenclChunk;
  options.prompts.prefill = prefill;
  if (prefill == plan::Prefill::kInt8) options.prompts.int8 = plan::Int8Method::kToken;
  options.activations = plan::Activations::kF32;
  return options;
}

plan::PlannedLane opencl_lane() {
  plan::PlannedLane lane = {{}, 0, "opencl"};
  lane.device = "0";
  return lane;
}

// Lets plain arithmetic stand in for extensions that the device lacks, while it lives.
struct EmulatedExtensions {
  EmulatedExtensions() { setenv("TROIKA_OPENCL_EXTENSIONS", "emulated", 1); }
  ~EmulatedExtensions() { unsetenv("TROIKA_OPENCL_EXTENSIONS"); }
};

// Returns the logits behind prompts of whole chunks and of rests, and behind steps, while there are
// two texts at once.
Logits logits_behind(Engine& engine, const TinyModel& model, int n_steps) {
  Logits rows;
  Session other(engine);
  for (const int length : {5, kOpenclChunk, 2 * kOpenclChunk + 11}) {
    Session session(engine);
    session.prefill(test_support::random_tokens(model, static_cast<size_t>(length), 5));
    rows.push_back(copy_of(session.logits()));
    for (int i = 0; i < n_steps; ++i) {
      session.append(test_support::random_tokens(model, 1, 6 + static_cast<unsigned>(i))[0]);
      rows.push_back(copy_of(session.logits()));
    }
    other.prefill(test_support::random_tokens(model, 3, 9));
    rows.push_back(copy_of(other.logits()));
  }
  return rows;
}

class OpenclModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
    if (found.device == nullptr) GTEST_SKIP() << found.problem;
  }
};

TEST_P(OpenclModels, InFloatsAreNearThoseOfCores) {
  constexpr float kBound = 2e-5f;
  for (const uint32_t type : {test_support::kF32, test_support::kQ8_0}) {
    const TinyModel model = opencl_model(GetParam(), type);
    TinyEngine on_cores(model, opencl_options(plan::Prefill::kF32));
    prepare::Options options = opencl_options(plan::Prefill::kF32);
    options.lanes.cores = {opencl_lane()};
    TinyEngine on_device(model, options);
    const Logits expected = logits_behind(*on_cores.engine, model, 3);
    const Logits rows = logits_behind(*on_device.engine, model, 3);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_LE(lanes::opencl::difference(expected[i], rows[i]), kBound) << i;
    }
  }
}

TEST_P(OpenclModels, InFloatsAgreeWithTheReference) {
  constexpr double kBound = 1e-5;  // as for cores (tests/logits_test.cc)
  const TinyModel model = opencl_model(GetParam(), test_support::kF32);
  prepare::Options options = opencl_options(plan::Prefill::kF32);
  options.lanes.cores = {opencl_lane()};
  TinyEngine tiny(model, options);
  const auto tokens = test_support::random_tokens(model, 40, 5);
  const auto logits = test_support::engine_logits(*tiny.session, tokens);
  const double error =
      reference::relative_error(logits, test_support::reference_logits(model, tokens));
  std::printf("%s, on an OpenCL device: error %.2e\n", GetParam().c_str(), error);
  EXPECT_LE(error, kBound);
}

TEST_P(OpenclModels, InFloatsSayTheSameAsOnCores) {
  constexpr int kGreedyTokens = 60;
  const TinyModel model = opencl_model(GetParam(), test_support::kQ8_0);
  prepare::Options options = opencl_options(plan::Prefill::kF32);
  TinyEngine on_cores(model, options);
  options.lanes.cores = {opencl_lane()};
  TinyEngine on_device(model, options);
  const auto prompt = test_support::random_tokens(model, 20, 5);
  const test_support::GreedyAgreement agreement =
      test_support::greedy_agreement(*on_cores.session, *on_device.session, prompt, kGreedyTokens);
  std::printf("%s, greedy tokens on an OpenCL device as on cores: %d of %d\n", GetParam().c_str(),
              agreement.n_equal, kGreedyTokens);
  EXPECT_EQ(agreement.n_equal + agreement.n_ties, kGreedyTokens);
}

TEST_P(OpenclModels, TakeNoMoreMemoryThanWasReckoned) {
  const TinyModel model = opencl_model(GetParam(), test_support::kQ8_0);
  for (const plan::Prefill prefill : {plan::Prefill::kF32, plan::Prefill::kInt8}) {
    prepare::Options options = opencl_options(prefill);
    options.lanes.cores = {opencl_lane()};
    TinyEngine tiny(model, options);
    const Engine& engine = *tiny.engine;
    const plan::Ledger expected = prepare::expected_memory(
        options, engine.blueprint(), engine.weights(), engine.plan(), engine.memory());
    // The copies of what a run brings along take turns.
    for (int i = 0; i < 4; ++i) {
      tiny.session->prefill(test_support::random_tokens(model, kOpenclContext / 4 - 1, 5));
      tiny.session->logits();
    }
    plan::Ledger taken = engine.ledger();
    engine::enter_taken(engine, &taken);
    // What cores do between products in int8 is not reckoned.
    const size_t of_cores = prefill == plan::Prefill::kInt8 ? size_t{1} << 20 : 0;
    EXPECT_LE(taken.bytes(plan::Owner::kLanes), expected.bytes(plan::Owner::kLanes) + of_cores)
        << plan::prefill_name(prefill);
  }
}

TEST_P(OpenclModels, InFloatsHaveTheSameBitsInAnyChunks) {
  const TinyModel model = opencl_model(GetParam(), test_support::kQ8_0);
  Logits expected;
  for (const int chunk : {kOpenclChunk, 45, 64}) {
    prepare::Options options = opencl_options(plan::Prefill::kF32);
    options.memory.kv_type = tensor::Type::kF16;
    options.lanes.cores = {opencl_lane()};
    options.prompts.chunk = chunk;
    TinyEngine tiny(model, options);
    const Logits rows = logits_behind(*tiny.engine, model, 2);
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(rows == expected) << chunk;
  }
}

TEST_P(OpenclModels, PromptsInInt8HaveTheBitsOfCores) {
  const TinyModel model = opencl_model(GetParam(), test_support::kQ8_0);
  TinyEngine on_cores(model, opencl_options(plan::Prefill::kInt8));
  const Logits expected = logits_behind(*on_cores.engine, model, 0);
  const bool has_experts = model.n_experts > 0;
  struct Case {
    const char* name;
    std::vector<const char*> places, cuts, lengths;
  };
  const Case cases[] = {
      {"whole subgraphs",
       {"embed@prompt=1", "qkv@prompt=1", "attention@prompt=1", "ffn@prompt=1"},
       {},
       {}},
      {"rows of products", {}, {"@prompt=rows:0:1,1:2"}, {}},
      {"lengths", {}, {}, {"1:16,0:16"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    prepare::Options options = opencl_options(plan::Prefill::kInt8);
    options.lanes.cores = {{{}, 1}, opencl_lane()};
    for (const char* text : c.places) {
      options.lanes.placements.push_back(plan::placement_from_text(text));
    }
    for (const char* text : c.cuts) options.lanes.cuts.push_back(plan::cut_from_text(text));
    for (const char* text : c.lengths) {
      if (has_experts) continue;
      options.lanes.lengths.push_back(plan::length_from_text(text));
    }
    TinyEngine shared(model, options);
    EXPECT_TRUE(logits_behind(*shared.engine, model, 0) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpenclModels, testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

TEST(OpenclModel, PromptsInIntegerDotProductsHaveTheBitsOfCores) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  const EmulatedExtensions emulated;
  const TinyModel model = opencl_model("llama", test_support::kQ8_0);
  prepare::Options options = opencl_options(plan::Prefill::kInt8);
  const Logits expected = logits_behind(*TinyEngine(model, options).engine, model, 0);
  options.lanes.cores = {{{}, 1}, opencl_lane()};
  options.lanes.cuts = {plan::cut_from_text("@prompt=rows:0:1,1:2")};
  TinyEngine shared(model, options);
  EXPECT_TRUE(logits_behind(*shared.engine, model, 0) == expected);
}

// Steps stay in floats, and so do the logits behind a prompt; what they see is of prompts.
TEST(OpenclModel, H13PromptsInHalvesAreNearFloatsAndTheSameInAnyChunks) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  const EmulatedExtensions emulated;
  const TinyModel model = opencl_model("llama", test_support::kQ8_0);
  size_t held = 0, reckoned = 0;
  const auto logits = [&](plan::Prefill prefill, int chunk) {
    prepare::Options options = opencl_options(prefill);
    if (prefill != plan::Prefill::kBf16) options.lanes.cores = {opencl_lane()};
    options.prompts.chunk = chunk;
    TinyEngine tiny(model, options);
    const Engine& engine = *tiny.engine;
    held = engine.machine().lanes().front()->held_bytes();
    reckoned = prepare::device_bytes(engine.blueprint(), engine.weights(), engine.plan(), 0);
    // No prompt has a rest that is short enough for steps.
    tiny.session->prefill(test_support::random_tokens(model, 2 * kOpenclChunk, 5));
    Logits rows = {copy_of(tiny.session->logits())};
    tiny.session->append(test_support::random_tokens(model, 1, 6)[0]);
    rows.push_back(copy_of(tiny.session->logits()));
    return rows;
  };
  const Logits expected = logits(plan::Prefill::kF32, kOpenclChunk);
  const size_t held_in_floats = held, reckoned_in_floats = reckoned;
  const Logits rows = logits(plan::Prefill::kF16, kOpenclChunk);
  EXPECT_GT(held, held_in_floats);
  EXPECT_EQ(held - held_in_floats, reckoned - reckoned_in_floats);
  // Weights without sense make much of small differences: halves, of 11 bits, are nearer than bf16,
  // of 8.
  const Logits rounded = logits(plan::Prefill::kBf16, kOpenclChunk);
  for (size_t i = 0; i < rows.size(); ++i) {
    const float apart = lanes::opencl::difference(expected[i], rows[i]);
    EXPECT_LT(apart, 0.5f * lanes::opencl::difference(expected[i], rounded[i])) << i;
    EXPECT_GT(apart, 0.0f) << i;
  }
  EXPECT_EQ(logits(plan::Prefill::kF16, 2 * kOpenclChunk), rows);
}

// Prompts read experts on the device, and steps read them on cores, from rows in either order.
TEST(OpenclModel, H13ExpertsBesideHalvesDoNotDependOnHowTheModelIsLoaded) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  const EmulatedExtensions emulated;
  const TinyModel model = opencl_model("mixtral", test_support::kQ8_0);
  prepare::Options options = opencl_options(plan::Prefill::kF16);
  options.activations = plan::Activations::kQ8;
  options.lanes.cores = {{{}, 1}, opencl_lane()};
  for (const char* const place : {"qkv@prompt=1", "ffn@prompt=1"}) {
    options.lanes.placements.push_back(plan::placement_from_text(place));
  }
  Logits rows[2];
  for (const bool is_copied : {false, true}) {
    options.memory.load = is_copied ? prepare::Load::kCopy : prepare::Load::kMap;
    TinyEngine tiny(model, options);
    rows[is_copied] = logits_behind(*tiny.engine, model, 1);
  }
  EXPECT_TRUE(rows[0] == rows[1]);
}

TEST(OpenclModel, HalvesThatTheDeviceLacksAreASentence) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  if (found.device->entry().has_halves) GTEST_SKIP() << "this device has half floats";
  prepare::Options options = opencl_options(plan::Prefill::kF16);
  options.lanes.cores = {opencl_lane()};
  try {
    const TinyEngine engine(opencl_model("llama", test_support::kQ8_0), options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cl_khr_fp16"), std::string::npos) << error.what();
  }
}

TEST(OpenclModel, InFloatsIsNearCoresOverEveryTypeOfCache) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  // Stored keys and values are rounded to 11 bits or to 8.
  for (const auto& [type, bound] :
       {std::pair{tensor::Type::kF16, 1e-3f}, {tensor::Type::kQ8_0, 2e-2f}}) {
    const TinyModel model = opencl_model("llama", test_support::kQ8_0);
    prepare::Options options = opencl_options(plan::Prefill::kF32);
    options.memory.kv_type = type;
    TinyEngine on_cores(model, options);
    options.lanes.cores = {opencl_lane()};
    TinyEngine on_device(model, options);
    const Logits expected = logits_behind(*on_cores.engine, model, 3);
    const Logits rows = logits_behind(*on_device.engine, model, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_LE(lanes::opencl::difference(expected[i], rows[i]), bound) << i;
    }
  }
}

// The draft model has cores, because a device would want floats of it that nobody asked for.
TEST(OpenclModel, ADraftModelBesideItDraftsOnCores) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  const TinyModel model = opencl_model("llama", test_support::kQ8_0);
  prepare::Options options = opencl_options(plan::Prefill::kF32);
  options.lanes.cores = {opencl_lane()};
  const TinyEngine tiny(model, options);
  const std::vector<engine::Token> prompt = test_support::random_tokens(model, 20, 5);
  engine::GenerateOptions how;
  how.most_tokens = 30;
  how.ignore_end = true;
  engine::Sampler sampler({});
  Session alone(*tiny.engine), drafted(*tiny.engine);
  const engine::Generated expected = generate(alone, prompt, sampler, how, {});
  engine::DraftOptions draft;
  draft.kind = "model:" + tiny.engine->file().path();
  const auto drafter = make_drafter(*tiny.engine, options, draft);
  how.drafter = drafter.get();
  EXPECT_EQ(generate(drafted, prompt, sampler, how, {}).tokens, expected.tokens);
  EXPECT_GT(drafter->statistics().n_verified, 0);
}

// Attention of prompts in int8 runs on the lane's cores, and chooses the positions that cores
// choose.
TEST(OpenclModel, SparseAttentionOfPromptsInInt8HasTheBitsOfCores) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  constexpr int kFrom = 512, kChunk = 128;
  const TinyModel model = test_support::narrow_llama(1024, 6, 2);
  const auto logits = [&](plan::AttentionForm form, const char* place, const char* cut) {
    prepare::Options options = opencl_options(plan::Prefill::kInt8);
    options.memory.context = 1024;
    options.memory.kv_type = tensor::Type::kF16;
    options.prompts.chunk = kChunk;
    options.prompts.attention = form;
    options.prompts.attention_from = kFrom;
    if (form != plan::AttentionForm::kFull) options.prompts.attention_share = 5;
    if (place != nullptr || cut != nullptr) options.lanes.cores = {{{}, 1}, opencl_lane()};
    if (place != nullptr) options.lanes.placements = {plan::placement_from_text(place)};
    if (cut != nullptr) options.lanes.cuts = {plan::cut_from_text(cut)};
    TinyEngine tiny(model, options);
    // Whole chunks, because a short rest would be steps, which attend to everything.
    tiny.session->prefill(test_support::random_tokens(model, 7 * kChunk, 5));
    return copy_of(tiny.session->logits());
  };
  const auto full = logits(plan::AttentionForm::kFull, nullptr, nullptr);
  for (const plan::AttentionForm form :
       {plan::AttentionForm::kSparse, plan::AttentionForm::kQuery}) {
    const auto expected = logits(form, nullptr, nullptr);
    EXPECT_NE(expected, full);
    EXPECT_EQ(logits(form, "attention@prompt=1", nullptr), expected);
    EXPECT_EQ(logits(form, nullptr, "attention@prompt=heads:0:1,1:1"), expected);
  }
}

TEST(OpenclModel, StepsAreNotCutBetweenItsFloatsAndThoseOfCores) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  for (const char* cut : {"@step=rows:0:1,1:1", "=rows:0:1,1:1"}) {
    prepare::Options options = opencl_options(plan::Prefill::kInt8);
    options.lanes.cores = {{{}, 1}, opencl_lane()};
    options.lanes.cuts = {plan::cut_from_text(cut)};
    try {
      const TinyEngine engine(opencl_model("llama", test_support::kQ8_0), options);
      ADD_FAILURE() << cut << ": no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("numerics classes"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace troika
