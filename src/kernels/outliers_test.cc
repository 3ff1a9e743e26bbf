#include <gtest/gtest.h>

#include <limits>

#include "kernels/panels_test_support.h"

namespace troika::kernels {
namespace {

class Outliers : public EveryImplementation {};

struct Quantised {
  Aligned<std::byte> row;
  std::vector<Outlier> outliers;

  Quantised(const Table& table, const std::vector<float>& x, Int8Range range)
      : row(int8_token_bytes(x.size())), outliers(x.size()) {
    outliers.resize(
        table.quantize_int8_within(x.data(), range, row.get(), outliers.data(), x.size()));
  }
};

// Returns ordinary values with a few that are far outside.
std::vector<float> with_outliers(size_t k, uint32_t seed) {
  std::vector<float> x = random_floats(k, seed);
  const std::vector<float> far = random_floats(k, seed + 1, 200.0f);
  for (size_t i = seed % 7; i < k; i += 29) x[i] = far[i];
  return x;
}

TEST_P(Outliers, N3ActivationsWithALimitEqualTheReferenceToTheBit) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t k : {1, 15, 64, 127, 128, 129, 300, 1000}) {
    std::vector<std::vector<float>> rows = {with_outliers(k, 3), random_floats(k, 4, 1e-34f),
                                            random_floats(k, 5, 1e30f), std::vector<float>(k)};
    for (const float odd : {kInfinity, -kInfinity, kNan, 127.5f, -127.5f, 127.49999f, -128.0f}) {
      rows.push_back(random_floats(k, 8));
      rows.back()[k - 1] = odd;
    }
    for (const std::vector<float>& x : rows) {
      for (const float limit : {127.0f, 2.5f, 0.01f, 1e38f, 1e-32f}) {
        for (const bool is_static : {false, true}) {
          const Quantised mine(table(), x, {limit, is_static});
          const Quantised theirs(reference::kTable, x, {limit, is_static});
          ASSERT_TRUE(mine.row == theirs.row) << k << " within " << limit;
          ASSERT_EQ(mine.outliers.size(), theirs.outliers.size()) << k << " within " << limit;
          for (size_t i = 0; i < mine.outliers.size(); ++i) {
            ASSERT_EQ(mine.outliers[i].channel, theirs.outliers[i].channel);
            ASSERT_EQ(mine.outliers[i].residual, theirs.outliers[i].residual);
          }
        }
      }
    }
  }
}

TEST_P(Outliers, N4ResidualsEqualTheReferenceToTheBit) {
  for (const Shape& s : kPanelShapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const Int8Weight packed(Type::kF32, weight.view);
    std::vector<Outlier> lists(s.n_tokens * s.k);
    std::vector<uint32_t> counts(s.n_tokens);
    Aligned<std::byte> row(int8_token_bytes(s.k));
    for (size_t t = 0; t < s.n_tokens; ++t) {
      const std::vector<float> x = with_outliers(s.k, static_cast<uint32_t>(t));
      counts[t] = static_cast<uint32_t>(table().quantize_int8_within(
          x.data(), {t == 1 ? 0.05f : 2.0f, true}, row.get(), lists.data() + t * s.k, s.k));
    }
    std::vector<float> mine = random_floats(s.n_tokens * s.n_rows + 1, 6), theirs = mine;
    OutlierProduct product = {0,   n_strips(s.n_rows), s.n_tokens,  lists.data(),
                              s.k, counts.data(),      mine.data(), s.n_rows};
    table().add_outliers(packed.view, product);
    product.y = theirs.data();
    reference::kTable.add_outliers(packed.view, product);
    ASSERT_EQ(mine, theirs) << s.n_rows << " rows, k " << s.k;
    // Strip by strip, the product has the same bits.
    std::vector<float> cut = random_floats(s.n_tokens * s.n_rows + 1, 6);
    product.y = cut.data();
    for (size_t strip = 0; strip < n_strips(s.n_rows); ++strip) {
      product.first_strip = strip;
      product.last_strip = strip + 1;
      table().add_outliers(packed.view, product);
    }
    ASSERT_EQ(cut, theirs) << s.n_rows << " rows, k " << s.k;
  }
}

// Columns may lie in any place of memory, and only those that some token needs are there.
TEST_P(Outliers, N5ColumnsGiveWhatTheMatrixGivesToTheBit) {
  for (const Shape& s : kPanelShapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    Int8Weight packed(Type::kF32, weight.view);
    std::vector<Outlier> lists(s.n_tokens * s.k);
    std::vector<uint32_t> counts(s.n_tokens);
    Aligned<std::byte> row(int8_token_bytes(s.k));
    std::vector<std::vector<int8_t>> columns(s.k);
    std::vector<const int8_t*> channels(s.k);
    for (size_t t = 0; t < s.n_tokens; ++t) {
      const std::vector<float> x = with_outliers(s.k, static_cast<uint32_t>(t));
      counts[t] = static_cast<uint32_t>(table().quantize_int8_within(
          x.data(), {t == 1 ? 0.05f : 2.0f, true}, row.get(), lists.data() + t * s.k, s.k));
      for (uint32_t i = 0; i < counts[t]; ++i) {
        const size_t channel = lists[t * s.k + i].channel;
        columns[channel].resize(s.n_rows);
        for (size_t r = 0; r < s.n_rows; ++r) columns[channel][r] = packed.level(r, channel);
        channels[channel] = columns[channel].data();
      }
    }
    std::vector<float> expected(s.n_tokens * s.n_rows + 1), mine = expected, theirs = expected;
    reference::kTable.add_outliers(packed.view, {0, n_strips(s.n_rows), s.n_tokens, lists.data(),
                                                 s.k, counts.data(), expected.data(), s.n_rows});
    ChannelProduct product = {0,
                              s.n_rows,
                              s.n_tokens,
                              lists.data(),
                              s.k,
                              counts.data(),
                              channels.data(),
                              packed.scales.data(),
                              theirs.data(),
                              s.n_rows};
    reference::kTable.multiply_channels(product);
    ASSERT_EQ(theirs, expected) << s.n_rows << " rows, k " << s.k;
    product.y = mine.data();
    for (size_t first = 0; first < s.n_rows; first += 48) {  // computes it in parts
      product.first_row = first;
      product.last_row = std::min(first + 48, s.n_rows);
      table().multiply_channels(product);
    }
    ASSERT_EQ(mine, expected) << s.n_rows << " rows, k " << s.k;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Outliers, every_implementation(), implementation_name);

// The levels and the residuals together give x, but for the rounding of values within the limit.
TEST(Outliers, N4LevelsAndResidualsAreTheWhole) {
  constexpr size_t kDepth = 500;
  const std::vector<float> x = with_outliers(kDepth, 11);
  for (const float limit : {0.5f, 3.0f, 1000.0f}) {
    const Quantised quantised(reference::kTable, x, {limit, true});
    const Int8Token token = int8_token(quantised.row.get(), kDepth);
    ASSERT_EQ(*token.scale, limit / 127.0f);
    std::vector<float> sum(kDepth);
    for (size_t i = 0; i < kDepth; ++i) {
      sum[i] = static_cast<float>(token.levels[i] - 128) * *token.scale;
    }
    std::vector<bool> is_outlier(kDepth);
    for (const Outlier& outlier : quantised.outliers) {
      sum[outlier.channel] += outlier.residual;
      is_outlier[outlier.channel] = true;
    }
    for (size_t i = 0; i < kDepth; ++i) {
      const float bound = is_outlier[i] ? 1e-6f * std::fabs(x[i]) : 0.5001f * *token.scale;
      EXPECT_NEAR(sum[i], x[i], bound) << i << " within " << limit;
      EXPECT_EQ(is_outlier[i], std::fabs(x[i]) * (127.0f / limit) >= 127.5f) << i;
    }
  }
}

TEST(Outliers, N3AScaleOfItsOwnIsNeverLargerThanTheTokenNeeds) {
  const std::vector<float> x = {0.5f, -0.25f, 0.125f};
  const Quantised own(reference::kTable, x, {2.0f, false});
  EXPECT_EQ(*int8_token(own.row.get(), x.size()).scale, 0.5f / 127.0f);
  const Quantised fixed(reference::kTable, x, {2.0f, true});
  EXPECT_EQ(*int8_token(fixed.row.get(), x.size()).scale, 2.0f / 127.0f);
  // Where nothing exceeds the limit, the row is that of quantize_int8.
  Aligned<std::byte> plain(int8_token_bytes(x.size()));
  reference::kTable.quantize_int8(x.data(), plain.get(), x.size());
  EXPECT_TRUE(own.row == plain);
}

}  // namespace
}  // namespace troika::kernels
