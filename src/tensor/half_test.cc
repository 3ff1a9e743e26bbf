#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troika::tensor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Half, EveryHalfSurvivesTheWayToFloatAndBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = f16_to_f32(static_cast<uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << half;
    } else {
      EXPECT_EQ(f32_to_f16(value), half);
    }
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0xc000), -2.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0xfc00), -kInfinity);
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);  // is a tie and goes down to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);  // is a tie and goes up to even
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-kInfinity), 0xfc00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // is a tie between 0 and 2^-24
  EXPECT_EQ(f32_to_f16(0x1.8p-24f), 0x0002);
  EXPECT_EQ(f32_to_f16(0x1.ff8p-15f), 0x03ff);
  EXPECT_EQ(f32_to_f16(0x1.ffcp-15f), 0x0400);  // rounds up into the normal numbers
  EXPECT_EQ(f32_to_f16(-1e-30f), 0x8000);
}

TEST(Half, EveryBrainFloatSurvivesTheWayToFloatAndBack) {
  for (uint32_t brain = 0; brain < 0x10000; ++brain) {
    const float value = bf16_to_f32(static_cast<uint16_t>(brain));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << brain;
    } else {
      EXPECT_EQ(f32_to_bf16(value), brain);
    }
  }
}

TEST(Half, BrainFloatsRoundToTheNearestAndTiesToEven) {
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(kInfinity), 0x7f80);
}

TEST(Half, StoringClampsToTheLargestFiniteValue) {
  uint8_t bytes[2];
  EXPECT_EQ(store_f16(1e30f, bytes), kMaxF16);
  EXPECT_EQ(load_f16(bytes), kMaxF16);
  EXPECT_EQ(store_f16(-kInfinity, bytes), -kMaxF16);
}

}  // namespace
}  // namespace troika::tensor
