#include "measure/prompt_peak.h"

#include <gtest/gtest.h>

namespace troika::measure {
namespace {

using plan::Prefill;
using tensor::Type;

TEST(PromptPeak, IsThatOfThePrecisionInWhichAPromptIsMultiplied) {
  const struct {
    Prefill prefill;
    double of_blocks, of_floats;
  } kCases[] = {{Prefill::kInt8, 8, 8}, {Prefill::kBf16, 16, 16}, {Prefill::kF32, 32, 32},
                {Prefill::kQ8, 8, 16},  {Prefill::kSame, 8, 32},  {Prefill::kF16, 0, 0}};
  Peaks peaks;
  peaks.int8_tops = 8, peaks.bf16_tflops = 16, peaks.f32_tflops = 32;
  plan::Plan plan;
  plan.activations = plan::Activations::kQ8;
  plan.prompt_shapes = {32};
  for (const auto& c : kCases) {
    plan.prefill = c.prefill;
    EXPECT_EQ(prompt_peak(peaks, plan, Type::kQ8_0, 64), c.of_blocks) << prefill_name(c.prefill);
    EXPECT_EQ(prompt_peak(peaks, plan, Type::kF32, 64), c.of_floats) << prefill_name(c.prefill);
  }
  // Where the processor has no bfloat16, it computes in float.
  peaks.bf16_tflops = 0;
  plan.prefill = Prefill::kBf16;
  EXPECT_EQ(prompt_peak(peaks, plan, Type::kQ8_0, 64), 32);
  plan.prefill = Prefill::kQ8;
  EXPECT_EQ(prompt_peak(peaks, plan, Type::kF32, 64), 32);
}

TEST(PromptPeak, OfStepsIsNamed) {
  const Peaks peaks = {0.0, 8, 16, 32, "whole", "brain", "single"};
  plan::Plan plan;
  EXPECT_EQ(step_peak(peaks, plan, Type::kQ8_0).per_s, 8);
  EXPECT_EQ(step_peak(peaks, plan, Type::kQ8_0).instruction, "whole");
  EXPECT_STREQ(step_peak(peaks, plan, Type::kF16).precision, "f32");
  plan.activations = plan::Activations::kF32;
  EXPECT_EQ(step_peak(peaks, plan, Type::kQ8_0).per_s, 32);
  EXPECT_EQ(step_peak(peaks, plan, Type::kQ8_0).instruction, "single");
}

// Cores' peaks say nothing of what a device can do, alone or beside cores.
TEST(PromptPeak, IsNotKnownWhereALaneIsADevice) {
  Peaks peaks;
  peaks.int8_tops = 8, peaks.bf16_tflops = 16, peaks.f32_tflops = 32;
  plan::Plan plan;
  plan.prefill = Prefill::kInt8;
  EXPECT_TRUE(has_known_peaks(plan));
  for (const char* lanes : {"opencl:0", "0;opencl:0"}) {
    plan.lanes = plan::lanes_from_text(lanes, {0});
    EXPECT_FALSE(has_known_peaks(plan)) << lanes;
    EXPECT_EQ(prompt_peak(peaks, plan, Type::kQ8_0, 64), 0) << lanes;
    EXPECT_EQ(step_peak(peaks, plan, Type::kQ8_0).per_s, 0) << lanes;
  }
}

}  // namespace
}  // namespace troika::measure
