#include "measure/measure.h"

#include <gtest/gtest.h>

#include <climits>

#include "base/error.h"
#include "measure/measure_drafts.h"
#include "measure/step_bounds.h"
#include "tests/support/tiny_engine.h"

namespace troika::measure {
namespace {

// The warm-up needs no more room than what is measured.
TEST(Measure, AContextThatHoldsWhatIsMeasuredIsEnough) {
  prepare::Options options;
  options.memory.context = 4;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  const Measurement m = measure(*tiny.session, {{2}, 0, 0, 1}, nullptr);
  ASSERT_EQ(m.prefill.size(), 1u);
  EXPECT_GT(m.prefill[0].median, 0.0);
}

TEST(Measure, TheFirstTokenIsThatOfTheShortestPrompt) {
  prepare::Options options;
  options.memory.context = 64;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  const Measurement m = measure(*tiny.session, {{32, 2, 8}, 0, 0, 1}, nullptr);
  ASSERT_EQ(m.prefill.size(), 3u);
  EXPECT_DOUBLE_EQ(m.first_token_s, 2 / m.prefill[1].median);  // a median of one run
}

// Steps are measured behind as many tokens as are asked for, whatever was computed before.
TEST(Measure, StepsStandWhereTheyAreAskedFor) {
  prepare::Options options;
  options.memory.context = 64;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  for (const int n_before : {8, 40}) {
    prefill_seconds(*tiny.session, n_before);
    decode_run(*tiny.session, 20, 3, nullptr);
    EXPECT_EQ(tiny.session->history().size(), 20u + 1 + 3) << n_before;
  }
}

// Whoever asks for more than any context holds gets a sentence, before anything is allocated.
TEST(Measure, LengthsWhoseSumNoIntHoldsAreRefused) {
  prepare::Options options;
  options.memory.context = 64;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  const auto refusal = [&](int depth, int n_steps) {
    return test::message_of<Error>([&] { check_context(*tiny.session, {{8}, n_steps, depth, 1}); });
  };
  EXPECT_NE(refusal(INT_MAX, 4).find("needs 2147483653 tokens"), std::string::npos);
  EXPECT_NE(refusal(0, INT_MAX).find("the longest ‹context› is 134217728"), std::string::npos);
  EXPECT_NE(refusal(60, 8).find("use ‹context› 70"), std::string::npos);
  EXPECT_EQ(refusal(54, 8), "");
  EXPECT_THROW(step_ms(*tiny.session, {1}, INT_MAX, 1), Error);
}

TEST(Measure, StepsReadTheCacheToo) {
  prepare::Options options;
  options.memory.context = 64;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  const Peaks peaks = {2.0, 8.0, 0.0, 1.0, "", "", ""};
  const auto read_ms = [&](int width, int depth) {
    return step_bounds(*tiny.engine, peaks, width, depth).read_ms;
  };
  EXPECT_DOUBLE_EQ(read_ms(2, 40), 0.5e-6 * bytes_per_step(*tiny.engine, 42));
  const auto weights_bytes = static_cast<double>(tiny.engine->weights().bytes_per_step());
  EXPECT_GT(read_ms(1, 40), 0.5e-6 * weights_bytes);
}

// Weights that are floats are multiplied in float.
TEST(Measure, StepsAreBoundedByThePeakOfTheirPrecision) {
  test_support::TinyModel model = test_support::small_model();
  const Peaks peaks = {2.0, 8.0, 0.0, 1.0, "", "", ""};
  const auto multiply_ms = [&](uint32_t type) {
    model.type = type;
    const test_support::TinyEngine tiny(model);
    const double operations =
        count_work(tiny.engine->blueprint(), tiny.engine->weights()).step(4, 1);
    return step_bounds(*tiny.engine, peaks, 4, 0).multiply_ms / (1e-9 * operations);
  };
  EXPECT_NEAR(multiply_ms(test_support::kQ8_0), 1.0 / 8.0, 1e-9);
  EXPECT_NEAR(multiply_ms(test_support::kF32), 1.0, 1e-9);
}

// The more rows a step has, the more experts some row goes to.
TEST(Measure, StepsOfAMixtureReadMoreExpertsWithEachRow) {
  const test_support::TinyEngine tiny(test_support::small_model("mixtral"));
  const Peaks peaks = {2.0, 8.0, 0.0, 1.0, "", "", ""};
  const model::Blueprint& blueprint = tiny.engine->blueprint();
  double experts = 0.0;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kExpertLinear) continue;
    experts += static_cast<double>(tiny.engine->weights().matrix(op.weight).bytes());
  }
  const double share = static_cast<double>(blueprint.n_experts_used) / blueprint.n_experts;
  ASSERT_LT(share, 1.0);
  const auto bytes = [&](int width) {
    return 2e6 * step_bounds(*tiny.engine, peaks, width, 0).read_ms -
           (bytes_per_step(*tiny.engine, width) - share * experts);
  };
  EXPECT_NEAR(bytes(1), share * experts, 1e-3);
  EXPECT_NEAR(bytes(2), (share + share * (1.0 - share)) * experts, 1e-3);
  EXPECT_NEAR(bytes(1000), experts, 1e-3);
}

// A step that leaves dead neurons out reads and multiplies less, and is a share of a smaller bound.
TEST(Measure, P1AStepByNeuronIsWhatItsLiveNeuronsAre) {
  test_support::TinyModel model = test_support::small_model();
  model.activation = "relu";
  const auto engine_of = [&](plan::FfnForm form) {
    prepare::Options options;
    options.memory.context = 64;
    options.ffn.form = form;
    options.prompts.prefill = plan::Prefill::kSame;
    return test_support::TinyEngine(model, options);
  };
  for (const plan::FfnForm form : {plan::FfnForm::kByOutput, plan::FfnForm::kEveryNeuron}) {
    const test_support::TinyEngine all = engine_of(form);
    EXPECT_EQ(decode_run(*all.session, 1, 8).not_computed.bytes, 0.0);
    EXPECT_EQ(not_computed_since(*all.engine, {}).operations, 0.0);
  }
  const test_support::TinyEngine tiny = engine_of(plan::FfnForm::kByNeuron);
  const Measurement m = measure(*tiny.session, {{16}, 8, 0, 1}, nullptr);
  const NotComputed left = not_computed_since(*tiny.engine, {});
  EXPECT_NEAR(left.operations, left.bytes / 2, 1.0);  // two operations for each float
  EXPECT_DOUBLE_EQ(m.dense_decode_bytes, bytes_per_step(*tiny.engine, 1 + 8 / 2.0));
  EXPECT_LT(m.decode_bytes, m.dense_decode_bytes);
  // Gates are computed in any case; the other two matrices of each block may be left out.
  const double rest = 2.0 * tiny.engine->blueprint().n_layers * sizeof(float) * 64.0 * 96.0;
  EXPECT_GE(m.decode_bytes, m.dense_decode_bytes - rest);
  EXPECT_LT(m.decode_operations, m.work.body_per_token + m.work.head_per_output);
  EXPECT_LT(m.prefill.at(0).operations, m.work.prefill(16));
}

}  // namespace
}  // namespace troika::measure
