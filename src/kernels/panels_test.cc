#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/panels_test_support.h"

namespace troika::kernels {
namespace {

class Panels : public EveryImplementation {
 protected:
  Panels() : EveryImplementation(true) {}
  // Expects the bits of the reference, because the sums are whole numbers and the few float
  // operations are the same.
  void compare_int8(const Int8Weight& weight, const Aligned<std::byte>& x, size_t n_tokens,
                    const float* bias) {
    const size_t n_rows = weight.view.n_rows;
    std::vector<float> mine(n_tokens * n_rows + 1, -7), theirs = mine;
    PanelProduct product = {
        0,    n_strips(n_rows), n_tokens, x.get(), int8_token_bytes(weight.view.k),
        bias, mine.data(),      n_rows};
    table().matmul_int8(weight.view, product);
    product.y = theirs.data();
    reference::kTable.matmul_int8(weight.view, product);
    ASSERT_EQ(mine, theirs) << n_rows << " rows, k " << weight.view.k << ", tokens " << n_tokens;
  }
};

TEST_P(Panels, N3Int8ProductsEqualTheReferenceToTheBit) {
  for (const Shape& s : kPanelShapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const Int8Weight packed(Type::kF32, weight.view);
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        int8_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    compare_int8(packed, x, s.n_tokens, nullptr);
    compare_int8(packed, x, s.n_tokens, bias.data());
  }
}

// Files or other packers could hold extreme levels, -128 included, and sums can get as large as
// these.
TEST_P(Panels, N3Int8ProductsHoldForExtremeLevels) {
  constexpr size_t kRows = 20, kTokens = 8;
  for (const size_t k : {64, 1000, 9000}) {
    Int8Weight weight(kRows, k);
    Aligned<std::byte> x(kTokens * int8_token_bytes(k));
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < k; ++i) {
        const int8_t extremes[] = {-128, 127, -127, static_cast<int8_t>(r * 31 + i * 7)};
        weight.level(r, i) = extremes[r % 4];
        weight.starts[r] -= 128 * weight.level(r, i);
      }
      weight.scales[r] = 0.5f + static_cast<float>(r);
    }
    for (size_t t = 0; t < kTokens; ++t) {
      std::byte* row = x.get() + t * int8_token_bytes(k);
      const uint8_t extremes[] = {0, 255, 1, 128, static_cast<uint8_t>(17 * t)};
      std::memset(row, extremes[t % 5], k);
      std::memset(row + k, 128, int8_depth(k) - k);
      *const_cast<float*>(int8_token(row, k).scale) = 0.25f;
    }
    compare_int8(weight, x, kTokens, nullptr);
  }
}

TEST_P(Panels, ActivationsAreBroughtIntoFormAsByTheReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t k : {1, 3, 16, 31, 63, 64, 65, 300}) {
    std::vector<std::vector<float>> rows = {random_floats(k, 5), random_floats(k, 6, 1e30f),
                                            random_floats(k, 7, 1e-36f), std::vector<float>(k)};
    for (const float odd : {kInfinity, -kInfinity, kNan, -kNan, 1e-45f, -0.0f, 127.5f, -3e38f}) {
      rows.push_back(random_floats(k, 8));
      rows.back()[k / 2] = odd;
    }
    for (const std::vector<float>& x : rows) {
      EXPECT_TRUE(int8_tokens(table(), x, 1, k) == int8_tokens(reference::kTable, x, 1, k)) << k;
      EXPECT_TRUE(bf16_tokens(table(), x, 1, k) == bf16_tokens(reference::kTable, x, 1, k)) << k;
    }
  }
}

// Returns a matrix with weights that are infinite or no numbers: in floats, and in the scales of
// blocks.
TestWeight with_odd_values(Type type, size_t n_rows, size_t k) {
  TestWeight weight(type, n_rows, k, random_floats(n_rows * k, 12, 0.05f));
  const size_t n_bytes = n_rows * weight.view.row_bytes;
  for (size_t i = 1; i + 4 < n_bytes; i += 1 + n_bytes / 9) {
    const uint32_t odd[] = {0x7f80'7c00u, 0xffc0'fe00u, 0xff80'fc00u};
    std::memcpy(weight.storage.data() + 1 + i / 2 * 2, &odd[i % 3], sizeof(odd[0]));
  }
  return weight;
}

// Compares what is no number, too.
bool have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(Panels, N3PackedWeightsEqualTheReferenceToTheBit) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    for (const size_t k : {1, 32, 33, 64, 96, 256, 288, 800, 1024}) {
      if (k % info.block_length != 0) continue;
      for (const size_t n_rows : {0, 1, 16, 21}) {
        for (const bool is_odd : {false, true}) {
          const TestWeight weight =
              is_odd ? with_odd_values(info.type, n_rows, k)
                     : TestWeight(info.type, n_rows, k, random_floats(n_rows * k, 9, 0.05f));
          const Int8Weight mine(info.type, weight.view, &table()), theirs(info.type, weight.view);
          EXPECT_TRUE(mine.levels == theirs.levels && mine.starts == theirs.starts &&
                      have_same_bits(mine.scales, theirs.scales))
              << info.name << " k " << k << " rows " << n_rows << (is_odd ? ", odd values" : "");
        }
      }
    }
  }
}

// A matrix that is unpacked a few strips at a time gives the same bits.
TEST_P(Panels, N3StripsOnTheirOwnGiveTheSameBits) {
  constexpr size_t kRows = 150, kTokens = 41, kDepth = 320;
  const TestWeight weight(Type::kQ8_0, kRows, kDepth, random_floats(kRows * kDepth, 1, 0.05f));
  const Int8Weight packed(Type::kQ8_0, weight.view);
  const std::vector<float> bias = random_floats(kRows, 3);
  const auto x = int8_tokens(table(), random_floats(kTokens * kDepth, 2), kTokens, kDepth);
  std::vector<float> whole(kTokens * kRows), cut = whole;
  PanelProduct product = {0,           n_strips(kRows), kTokens, x.get(), int8_token_bytes(kDepth),
                          bias.data(), whole.data(),    kRows};
  table().matmul_int8(packed.view, product);
  product.y = cut.data();
  for (size_t s = 0; s < n_strips(kRows); s += 3) {
    product.first_strip = s;
    product.last_strip = std::min(s + 3, n_strips(kRows));
    table().matmul_int8({packed.view.levels_of(s), packed.view.scales_of(s),
                         packed.view.starts_of(s), kRows, kDepth, s},
                        product);
  }
  EXPECT_EQ(cut, whole);
}

TEST_P(Panels, UnpackedWeightsEqualTheReferenceToTheBit) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    for (const size_t k : {1, 32, 33, 96, 256, 288, 800, 1024}) {
      if (k % info.block_length != 0) continue;
      for (const size_t n_rows : {1, 16, 21}) {
        const TestWeight weight(info.type, n_rows, k, random_floats(n_rows * k, 9, 0.05f));
        for (const size_t first_k : {0, 256, 512}) {
          if (first_k >= k) continue;
          const size_t all = bf16_depth(k - first_k);
          for (const size_t n_k : {all, size_t{32}, std::min<size_t>(all, 256)}) {
            EXPECT_TRUE(bf16_panel(table(), info.type, weight.view, first_k, n_k) ==
                        bf16_panel(reference::kTable, info.type, weight.view, first_k, n_k))
                << info.name << " k " << k << " rows " << n_rows << " from " << first_k << ", "
                << n_k;
          }
        }
      }
    }
  }
}

TEST_P(Panels, H13Bf16ProductsAgreeWithTheReference) {
  for (const Shape& s : kPanelShapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const std::vector<float> x = random_floats(s.n_tokens * s.k, 2);
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto tokens = bf16_tokens(reference::kTable, x, s.n_tokens, s.k);
    const size_t n_k = bf16_depth(s.k);
    const auto panel = bf16_panel(reference::kTable, Type::kF32, weight.view, 0, n_k);
    std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
    PanelProduct product = {
        0,           n_strips(s.n_rows), s.n_tokens, tokens.get(), bf16_token_bytes(s.k),
        bias.data(), mine.data(),        s.n_rows};
    const Bf16Stretch stretch = {panel.get(), s.n_rows, n_k, true, true};
    table().matmul_bf16(stretch, product);
    product.y = theirs.data();
    reference::kTable.matmul_bf16(stretch, product);
    for (size_t i = 0; i < mine.size(); ++i) {
      // Terms are below 0.05 * 5 * 5; a float sum of k of them loses a few of its last bits.
      ASSERT_NEAR(mine[i], theirs[i], 2e-7f * static_cast<float>(s.k) + 1e-6f)
          << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens << " at " << i;
    }
  }
}

// By the numerics law, strips, tokens and stretches of k may be cut anywhere.
TEST_P(Panels, BitsDoNotDependOnHowACallIsCut) {
  constexpr size_t kRows = 150, kTokens = 41, kDepth = 800;
  const TestWeight weight(Type::kQ8_0, kRows, kDepth, random_floats(kRows * kDepth, 1, 0.05f));
  const std::vector<float> x = random_floats(kTokens * kDepth, 2);
  const std::vector<float> bias = random_floats(kRows, 3);
  const auto tokens = bf16_tokens(table(), x, kTokens, kDepth);
  std::vector<float> whole(kTokens * kRows);
  PanelProduct product = {
      0,           n_strips(kRows), kTokens, tokens.get(), bf16_token_bytes(kDepth),
      bias.data(), whole.data(),    kRows};
  const auto panel = bf16_panel(table(), Type::kQ8_0, weight.view, 0, kDepth);
  table().matmul_bf16({panel.get(), kRows, kDepth, true, true}, product);
  for (const size_t n_k : {256, 512}) {
    for (const size_t step_tokens : {1, 7, 41}) {
      if (step_tokens == 1 && is_emulated()) continue;  // would raise some 200,000 signals
      for (const size_t step_strips : {1, 3, 10}) {
        std::vector<float> cut(kTokens * kRows);
        for (size_t first_k = 0; first_k < kDepth; first_k += n_k) {
          const size_t n = std::min(n_k, kDepth - first_k);
          const auto part = bf16_panel(table(), Type::kQ8_0, weight.view, first_k, n);
          for (size_t t = 0; t < kTokens; t += step_tokens) {
            for (size_t s = 0; s < n_strips(kRows); s += step_strips) {
              PanelProduct p = product;
              p.first_strip = s;
              p.last_strip = std::min(s + step_strips, n_strips(kRows));
              p.n_tokens = std::min(step_tokens, kTokens - t);
              p.x = tokens.get() + t * bf16_token_bytes(kDepth) + 2 * first_k;
              p.y = cut.data() + t * kRows;
              table().matmul_bf16(
                  {part.get() + s * kStripRows * n, kRows, n, first_k == 0, first_k + n == kDepth},
                  p);
            }
          }
        }
        EXPECT_EQ(cut, whole) << n_k << " " << step_tokens << " " << step_strips;
      }
    }
  }
}

// A value that is not a number spoils its own token and no other.
TEST_P(Panels, NotANumberStaysInItsToken) {
  constexpr size_t kRows = 24, kDepth = 64;
  const TestWeight weight(Type::kF32, kRows, kDepth, random_floats(kRows * kDepth, 1));
  std::vector<float> x = random_floats(3 * kDepth, 2);
  x[kDepth + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto tokens = bf16_tokens(table(), x, 3, kDepth);
  const auto panel = bf16_panel(table(), Type::kF32, weight.view, 0, kDepth);
  std::vector<float> y(3 * kRows);
  table().matmul_bf16({panel.get(), kRows, kDepth, true, true},
                      {0, 2, 3, tokens.get(), bf16_token_bytes(kDepth), nullptr, y.data(), kRows});
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / kRows == 1) << i;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Panels, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
