#include "kernels/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/panels_test_support.h"

namespace troika::kernels {
namespace {

TEST(PackInt8, LosesHalfALevelAtMost) {
  constexpr size_t kRows = 19, kDepth = 320;
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    if (info.block_length == 256) continue;
    const TestWeight weight(info.type, kRows, kDepth, random_floats(kRows * kDepth, 4, 0.3f));
    Int8Weight packed(info.type, weight.view);
    std::vector<float> row(kDepth);
    for (size_t r = 0; r < kRows; ++r) {
      tensor::dequantize_row(info.type, weight.view.data + r * weight.view.row_bytes, row.data(),
                             kDepth);
      int32_t sum = 0;
      int most = 0;
      for (size_t i = 0; i < kDepth; ++i) {
        const int level = packed.level(r, i);
        EXPECT_NEAR(static_cast<float>(level) * packed.scales[r], row[i],
                    0.5001f * packed.scales[r]);
        sum += level;
        most = std::max(most, std::abs(level));
      }
      EXPECT_EQ(most, 127);
      EXPECT_EQ(packed.starts[r], -128 * sum);
    }
    for (size_t r = kRows; r < packed.scales.size(); ++r) EXPECT_EQ(packed.scales[r], 0.0f);
  }
}

TEST(PackInt8, RowsWithWhatIsNoNumberHaveNoScale) {
  constexpr size_t kDepth = 40;
  std::vector<float> values(3 * kDepth);
  values[5] = std::numeric_limits<float>::infinity();
  values[6] = 1.0f;
  values[kDepth + 3] = std::numeric_limits<float>::quiet_NaN();
  values[kDepth + 4] = 1.0f;
  const TestWeight weight(Type::kF32, 3, kDepth, values);
  Int8Weight packed(Type::kF32, weight.view);
  EXPECT_TRUE(std::isnan(packed.scales[0]));
  EXPECT_TRUE(std::isnan(packed.scales[1]));
  EXPECT_EQ(packed.scales[2], 0.0f);
}

// A strip that is packed by the rule of int4.
struct Int4Strip {
  Int8Weight packed;

  Int4Strip(const TestWeight& weight, double outliers)
      : packed(weight.view.last_row, weight.view.k) {
    const size_t k = weight.view.k;
    std::vector<float> row(k), magnitudes(k), buffer(int8_token_bytes(k) / sizeof(float));
    PackRule rule;
    rule.int4_outliers = outliers;
    const Int8Strip out = packed.strip_at(0);
    pack_int8(reference::kTable, Type::kF32, weight.view,
              {row.data(), reinterpret_cast<std::byte*>(buffer.data()), magnitudes.data()},
              out.levels, out.scales, out.starts, rule);
  }
};

TEST(PackInt4, P11MostWeightsHave4BitsAndOutliersTheSameStepIn8) {
  constexpr size_t kRows = 5, kDepth = 400;
  std::vector<float> values = random_floats(kRows * kDepth, 8, 0.1f);
  for (size_t r = 0; r < kRows; ++r) {
    // Row r gets r outliers.
    for (size_t i = 0; i < r; ++i) values[r * kDepth + 13 * i + 1] *= 6;
  }
  values[3 * kDepth + 1] = 40.0f;  // is farther out than 8 bits reach
  const TestWeight weight(Type::kF32, kRows, kDepth, values);
  // 29 % of 400 are 116, although 0.29 * 400 is less in binary.
  for (const size_t percent : {0, 1, 2, 29}) {
    Int4Strip strip(weight, static_cast<double>(percent) / 100);
    size_t n_long_in_all = 0;
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<float> sorted;
      for (size_t i = 0; i < kDepth; ++i) sorted.push_back(std::fabs(values[r * kDepth + i]));
      std::sort(sorted.begin(), sorted.end());
      const size_t n_outliers = percent * kDepth / 100;
      const float largest = sorted[kDepth - 1 - n_outliers];
      const float step = strip.packed.scales[r];
      EXPECT_NEAR(step, largest / 7, 1e-5f * largest);
      size_t n_long = 0;
      for (size_t i = 0; i < kDepth; ++i) {
        const float value = values[r * kDepth + i];
        const int level = strip.packed.level(r, i);
        if (std::fabs(value) <= largest) {
          EXPECT_LE(std::abs(level), 7);
        } else if (std::abs(level) > 7) {
          ++n_long;
        }
        const float most = 127 * step;
        EXPECT_NEAR(static_cast<float>(level) * step, std::clamp(value, -most, most), 0.51f * step);
      }
      EXPECT_LE(n_long, n_outliers);
      n_long_in_all += n_long;
    }
    EXPECT_EQ(n_long_in_all > 0, percent > 0);
  }
}

TEST(PackInt4, P11RowsOfFewNumbersAndOfNoneStayWhole) {
  constexpr size_t kDepth = 200;
  std::vector<float> values(3 * kDepth);
  values[7] = -2.0f;  // is the only number of its row, and an outlier
  values[kDepth + 3] = std::numeric_limits<float>::quiet_NaN();
  values[kDepth + 4] = std::numeric_limits<float>::infinity();
  values[kDepth + 5] = 1.0f;
  const TestWeight weight(Type::kF32, 3, kDepth, values);
  Int4Strip strip(weight, 0.01);
  EXPECT_EQ(strip.packed.level(0, 7), -127);
  EXPECT_EQ(strip.packed.scales[0], 2.0f / 127.0f);
  EXPECT_EQ(strip.packed.level(1, 3), 0);
  EXPECT_TRUE(std::isnan(strip.packed.scales[1]));
  EXPECT_EQ(strip.packed.scales[2], 0.0f);
}

}  // namespace
}  // namespace troika::kernels
