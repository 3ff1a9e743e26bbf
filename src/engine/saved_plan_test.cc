// Tests engines that follow a plan from a file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/streaming/weight_stream.h"
#include "solve/lane_memory.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"
#include "weights/content_key.h"

namespace troika::engine {
namespace {

class SavedPlans : public testing::Test {
 protected:
  explicit SavedPlans(test_support::TinyModel model = test_support::small_model()) {
    options_.model.file = folder_.file("tiny.gguf");
    options_.lanes.n_threads = 1;
    test_support::write_tiny_model(model, options_.model.file);
  }
  // Returns options of a run that follows this plan.
  prepare::Options options_with(const Engine& made, const plan::Plan& plan) const {
    prepare::Options from_file;
    from_file.model.file = options_.model.file;
    from_file.plan.file = folder_.file("plan.json");
    std::ofstream(from_file.plan.file)
        << plan::to_json({prepare::plan_identity(made.file()), plan});
    return from_file;
  }

  test::TempFolder folder_;
  prepare::Options options_;
};

// Where a head finds its share follows from the model, so that a list for fewer heads ends too
// soon.
TEST_F(SavedPlans, S3SharesForAnotherNumberOfHeadsAreASentence) {
  options_.prompts.prefill = plan::Prefill::kBf16;
  options_.memory.context = 128;
  const Engine made(options_);
  const auto refusal = [&](size_t n_shares) {
    plan::Plan plan = made.plan();
    plan.attention.form = plan::AttentionForm::kQuery;
    plan.attention.head_shares.assign(n_shares, 0.5f);
    const prepare::Options with_plan = options_with(made, plan);
    return test::message_of<Error>([&] { const Engine engine(with_plan); });
  };
  const model::Blueprint& blueprint = made.blueprint();
  EXPECT_EQ(refusal(static_cast<size_t>(blueprint.n_layers * blueprint.n_heads)), "");
  EXPECT_NE(refusal(1).find("shares of positions for 1 heads"), std::string::npos) << refusal(1);
}

// The same head of a file may stand before other weights, as after training on.
TEST_F(SavedPlans, APlanThatWasTunedWithOtherContentIsUsedWithANote) {
  const Engine made(options_);
  const auto note_with = [&](uint64_t key) {
    const prepare::Options options = options_with(made, made.plan());
    std::ofstream(options.plan.file) << plan::to_json(
        {prepare::plan_identity(made.file()), made.plan(),
         plan::Tuned{"2026-11-22T22:15:00Z", "troika", fmt::format("{:016x}", key)}});
    const Engine engine(options);
    return engine.loaded().note;
  };
  const uint64_t key = weights::content_key(gguf::File::open(options_.model.file));
  EXPECT_EQ(note_with(key).find("was tuned with another content"), std::string::npos);
  EXPECT_NE(note_with(key + 1).find("was tuned with another content"), std::string::npos);
}

// Plans may be edited by hand, and what a lane may hold is a limit in every one of them.
TEST_F(SavedPlans, N9ALaneThatWouldHoldMoreThanItMayIsRefused) {
  const Engine made(options_);
  const size_t held = solve::held_by_lanes(made.blueprint(), made.weights(), made.plan()).front();
  const auto refusal = [&](uint64_t limit) {
    plan::Plan plan = made.plan();
    plan.lanes.front().memory_limit = limit;
    const prepare::Options with_plan = options_with(made, plan);
    return test::message_of<Error>([&] { const Engine engine(with_plan); });
  };
  EXPECT_EQ(refusal(held), "");
  const std::string message = refusal(held - 1);
  for (const char* part : {"plan.json: 'lanes[0].memory_limit'", "Allow more", "‹lane-memory›"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

test_support::TinyModel model_of_long_texts() {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.n_layers = 6;
  model.ffn_width = 2048;
  model.type = test_support::kQ8_0;
  model.context = 2048;
  return model;
}

class SavedPlansOfLongTexts : public SavedPlans {
 protected:
  SavedPlansOfLongTexts() : SavedPlans(model_of_long_texts()) {}
};

// The plan's context counts, whatever context the options name.
TEST_F(SavedPlansOfLongTexts, P10WeightsLeaveRoomForThePlansContext) {
  options_.memory.held_bytes = 0;
  options_.memory.context = 2048;
  const Engine whole(options_);
  prepare::Options with_plan = options_with(whole, whole.plan());
  with_plan.memory.held_bytes = 0;
  const size_t all = whole.ledger().total_bytes();
  const size_t of_context = whole.ledger().bytes(plan::Owner::kCache);
  ASSERT_GT(of_context, size_t{4} << 20);
  // A short context would have room beside all weights, so that none would be streamed.
  with_plan.memory.limit_bytes = all - of_context / 2;
  const auto n_streamed = [&](int context) {
    with_plan.memory.context = context;
    const Engine engine(with_plan);
    EXPECT_EQ(engine.plan().context, 2048);
    const prepare::WeightStream* const stream = engine.loaded().stream.get();
    return stream == nullptr ? 0 : stream->n_streamed();
  };
  const int expected = n_streamed(0);
  EXPECT_GT(expected, 0);
  EXPECT_EQ(n_streamed(1), expected);
  EXPECT_EQ(n_streamed(4096), expected);
}

}  // namespace
}  // namespace troika::engine
