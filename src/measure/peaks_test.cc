#include "measure/peaks.h"

#include <gtest/gtest.h>

namespace troika::measure {
namespace {

TEST(Peaks, EveryProcessorReadsAndMultiplies) {
  const Peaks peaks = measure_peaks(1);
  EXPECT_GT(peaks.read_gb_s, 0);
  EXPECT_GT(peaks.f32_tflops, 0);
  EXPECT_FALSE(peaks.f32_name.empty());
  EXPECT_EQ(peaks.int8_tops > 0, !peaks.int8_name.empty());
  EXPECT_EQ(peaks.bf16_tflops > 0, !peaks.bf16_name.empty());
}

}  // namespace
}  // namespace troika::measure
