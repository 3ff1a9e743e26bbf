// Weights in strips give the bits that the same rows give in the order of the file.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/test_support.h"
#include "tensor/strips.h"

namespace troika::kernels {
namespace {

// A matrix in the order of the file and in strips. Its last rows make no whole strip.
struct TwoOrders {
  TestWeight file;
  std::vector<std::byte> storage;  // begins at an odd address, as the data of a file may
  MatmulWeight strips;

  TwoOrders(Type type, size_t n_rows, size_t k) : file(type, n_rows, k, random_weights(n_rows, k)) {
    order(type);
  }
  // Fills the matrix with random bytes, also such that no encoder writes: infinite scales, all
  // levels.
  void randomise(Type type, uint32_t seed) {
    std::mt19937 random(seed);
    for (std::byte& byte : file.storage) byte = static_cast<std::byte>(random());
    order(type);
  }

 private:
  static std::vector<float> random_weights(size_t n_rows, size_t k) {
    return random_floats(n_rows * k, 1, 0.05f);
  }
  void order(Type type) {
    const MatmulWeight& rows = file.view;
    storage = file.storage;
    strips = rows;
    strips.data = storage.data() + 1;
    strips.n_strip_rows = rows.last_row / tensor::kStripRows * tensor::kStripRows;
    for (size_t r = 0; r < strips.n_strip_rows; r += tensor::kStripRows) {
      tensor::pack_strip(type, rows.data + r * rows.row_bytes, rows.k,
                         storage.data() + 1 + r * rows.row_bytes);
    }
  }
};

class StripKernels : public EveryImplementation {
 protected:
  void SetUp() override {
    EveryImplementation::SetUp();
    if (IsSkipped()) return;
    if (find(table().matmul_q8_strips, Type::kQ4_0) == nullptr) {
      GTEST_SKIP() << "these kernels read rows in the order of the file only";
    }
  }
  // Calls `body` for every type that has blocks, with rows of a few lengths. The last block of a
  // row ends anywhere in a super-block.
  template <typename Body>
  static void for_each_type(Body body) {
    for (const tensor::TypeInfo& info : tensor::type_table()) {
      if (tensor::is_float(info.type)) continue;
      for (const size_t k : {256, 768, 32, 288, 544}) {
        if (k % info.block_length == 0) body(info.type, k);
      }
    }
  }
};

bool are_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(StripKernels, ProductsHaveTheBitsOfTheFilesOrder) {
  constexpr size_t kRows = 53, kMostTokens = 70;
  for_each_type([&](Type type, size_t k) {
    const TwoOrders weight(type, kRows, k);
    const std::vector<std::byte> x = quantized(random_floats(kMostTokens * k, 2), kMostTokens, k);
    const size_t stride = q8_row_bytes(k);
    std::vector<float> wanted(kMostTokens * kRows);
    find(table().matmul_q8, type)(weight.file.view, kMostTokens, x.data(), stride, wanted.data(),
                                  kRows);
    for (const size_t n_tokens : {1, 2, 3, 4, 7, 8, 15, 32, 33, 64, 70}) {
      std::vector<float> found(wanted);
      std::fill_n(found.begin(), n_tokens * kRows, -7.0f);
      find(table().matmul_q8_strips, type)(weight.strips, n_tokens, x.data(), stride, found.data(),
                                           kRows);
      ASSERT_TRUE(are_equal(found, wanted))
          << tensor::type_name(type) << " k " << k << " tokens " << n_tokens;
    }
    // Rows are computed in parts, as workers take them.
    std::vector<float> found(wanted.size(), -7.0f);
    for (size_t r = 0; r < kRows; r += tensor::kStripRows) {
      MatmulWeight part = weight.strips;
      part.first_row = r;
      part.last_row = std::min(r + tensor::kStripRows, kRows);
      find(table().matmul_q8_strips, type)(part, kMostTokens, x.data(), stride, found.data(),
                                           kRows);
    }
    ASSERT_TRUE(are_equal(found, wanted)) << tensor::type_name(type) << " k " << k << " in pieces";
  });
}

TEST_P(StripKernels, ProductsOfPreparedTokensHaveTheSameBits) {
  constexpr size_t kRows = 48, kTokens = 70;
  ASSERT_NE(find(table().matmul_spread, Type::kQ4_0), nullptr);
  for_each_type([&](Type type, size_t k) {
    const TwoOrders weight(type, kRows, k);
    const std::vector<std::byte> x = quantized(random_floats(kTokens * k, 2), kTokens, k);
    const size_t stride = q8_row_bytes(k);
    std::vector<float> wanted(kTokens * kRows);
    find(table().matmul_q8, type)(weight.file.view, kTokens, x.data(), stride, wanted.data(),
                                  kRows);
    for (const size_t n_tokens : {1, 5, 15, 32, 33, 70}) {
      const TokenGroups groups = {n_tokens};
      std::vector<TokenBlock> blocks(n_tokens * n_token_blocks(k));
      for (size_t t = 0; t < n_tokens; ++t) {
        const size_t group = groups.of_token(t), first = groups.first(group);
        find(table().spread_token, type)(x.data() + t * stride, k,
                                         &blocks[first * n_token_blocks(k) + t - first],
                                         groups.size(group));
      }
      std::vector<float> found(wanted);
      std::fill_n(found.begin(), n_tokens * kRows, -7.0f);
      for (const size_t r : {16, 0}) {  // works in parts, as workers take them
        MatmulWeight part = weight.strips;
        part.first_row = r;
        part.last_row = r == 0 ? 16 : kRows;
        find(table().matmul_spread, type)(part, n_tokens, blocks.data(), found.data(), kRows);
      }
      ASSERT_TRUE(are_equal(found, wanted))
          << tensor::type_name(type) << " k " << k << " tokens " << n_tokens;
    }
  });
}

// The rows are longer than what the kernels have room to prepare.
TEST_P(StripKernels, RowsOfAnyLengthHaveTheBitsOfTheFilesOrder) {
  constexpr size_t kRows = 16, kTokens = 6, kLength = 147'712;
  for (const Type type : {Type::kQ4_0, Type::kQ8_0, Type::kQ6_K, Type::kQ3_K}) {
    const TwoOrders weight(type, kRows, kLength);
    const std::vector<std::byte> x =
        quantized(random_floats(kTokens * kLength, 2), kTokens, kLength);
    const size_t stride = q8_row_bytes(kLength);
    std::vector<float> wanted(kTokens * kRows), found(kTokens * kRows);
    find(table().matmul_q8, type)(weight.file.view, kTokens, x.data(), stride, wanted.data(),
                                  kRows);
    find(table().matmul_q8_strips, type)(weight.strips, kTokens, x.data(), stride, found.data(),
                                         kRows);
    EXPECT_TRUE(are_equal(found, wanted)) << tensor::type_name(type);
  }
}

TEST(TokenGroups, CoverAllTokensInTheirOrder) {
  for (const size_t most : {kGroupTokens, size_t{1}, size_t{5}}) {
    for (size_t n_tokens = 1; n_tokens < 300; ++n_tokens) {
      const TokenGroups groups = {n_tokens, most};
      size_t n = 0;
      for (size_t group = 0; group < groups.count(); ++group) {
        EXPECT_EQ(groups.first(group), n);
        EXPECT_GE(groups.size(group), 1u);
        EXPECT_LE(groups.size(group), most);
        for (size_t t = n; t < n + groups.size(group); ++t) EXPECT_EQ(groups.of_token(t), group);
        n += groups.size(group);
      }
      EXPECT_EQ(n, n_tokens);
    }
  }
}

TEST_P(StripKernels, PanelsHaveTheBitsOfTheFilesOrder) {
  constexpr size_t kRows = 37;
  for_each_type([&](Type type, size_t k) {
    TwoOrders weight(type, kRows, k);
    for (const bool is_random : {false, true}) {
      if (is_random) weight.randomise(type, 3);
      std::vector<float> largest(kRows);
      for (size_t r = 0; r < kRows; ++r) {
        const std::byte* row = weight.file.view.data + r * weight.file.view.row_bytes;
        largest[r] = find(table().largest_of_row, type)(row, k);
      }
      largest[2] = 0;  // is what a row of zeros would have
      for (size_t first_row = 0; first_row < kRows; first_row += kStripRows) {
        MatmulWeight rows = weight.file.view, strips = weight.strips;
        rows.first_row = strips.first_row = first_row;
        rows.last_row = strips.last_row = std::min(first_row + kStripRows, kRows);
        const std::string where = std::string(tensor::type_name(type)) + " k " + std::to_string(k) +
                                  " row " + std::to_string(first_row) +
                                  (is_random ? " of random bytes" : "");
        struct alignas(64) Line {
          std::byte bytes[kLineBytes];
        };
        std::vector<Line> wanted(int8_strip_bytes(k) / kLineBytes), found(wanted.size());
        float scales[2][kStripRows];
        int32_t starts[2][kStripRows];
        find(table().unpack_int8, type)(
            rows, largest.data() + first_row,
            {reinterpret_cast<int8_t*>(wanted.data()), scales[0], starts[0]});
        find(table().unpack_int8_strips, type)(
            strips, largest.data() + first_row,
            {reinterpret_cast<int8_t*>(found.data()), scales[1], starts[1]});
        EXPECT_EQ(std::memcmp(wanted.data(), found.data(), int8_strip_bytes(k)), 0) << where;
        EXPECT_TRUE(
            are_equal({scales[0], scales[0] + kStripRows}, {scales[1], scales[1] + kStripRows}))
            << where;
        EXPECT_EQ(std::memcmp(starts[0], starts[1], sizeof(starts[0])), 0) << where;

        for (const size_t first_k : {size_t{0}, size_t{256}}) {
          if (first_k >= k) continue;
          const size_t n_k = bf16_depth(k - first_k);
          const size_t bytes = n_k * kStripRows * sizeof(uint16_t);
          wanted.assign(bytes / kLineBytes, Line());
          found.assign(wanted.size(), Line());
          find(table().unpack_bf16, type)(rows, first_k, n_k,
                                          reinterpret_cast<uint16_t*>(wanted.data()));
          find(table().unpack_bf16_strips, type)(strips, first_k, n_k,
                                                 reinterpret_cast<uint16_t*>(found.data()));
          EXPECT_EQ(std::memcmp(wanted.data(), found.data(), bytes), 0)
              << where << " bf16 from " << first_k;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, StripKernels, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
