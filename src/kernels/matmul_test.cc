#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/test_support.h"

namespace troika::kernels {
namespace {

struct ProductShape {
  size_t n_rows, k, n_tokens;
};

bool block_type_fits(Type type, size_t k) { return k % tensor::type_info(type).block_length == 0; }

// Returns sum |w x| for each output, to which rounding errors are relative.
std::vector<float> magnitudes(const TestWeight& weight, Type type, const std::vector<float>& x,
                              size_t n_tokens) {
  const MatmulWeight& view = weight.view;
  std::vector<float> w(view.k), result(n_tokens * view.last_row);
  for (size_t r = 0; r < view.last_row; ++r) {
    tensor::dequantize_row(type, view.data + r * view.row_bytes, w.data(), view.k);
    for (size_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (size_t i = 0; i < view.k; ++i) sum += std::fabs(w[i] * x[t * view.k + i]);
      result[t * view.last_row + r] = static_cast<float>(sum);
    }
  }
  return result;
}

class Matmul : public EveryImplementation {
 protected:
  // Compares both kinds of product with the reference, for one type and shape.
  void compare(Type type, ProductShape shape) {
    const size_t n_rows = shape.n_rows, k = shape.k, n_tokens = shape.n_tokens;
    const TestWeight weight(type, n_rows, k, random_floats(n_rows * k, 1, 0.05f));
    const std::vector<float> x = random_floats(n_tokens * k, 2);
    const std::vector<std::byte> q = quantized(x, n_tokens, k);
    std::vector<float> mine(n_tokens * n_rows, -7), theirs(n_tokens * n_rows, -8);
    // Errors of float sums grow with the number of additions in an element, and Q4_K subtracts
    // large minima from large sums.
    const float tolerance = 2e-6f;
    const std::vector<float> bound = magnitudes(weight, type, x, n_tokens);
    const auto check = [&](const char* what) {
      for (size_t i = 0; i < mine.size(); ++i) {
        ASSERT_NEAR(mine[i], theirs[i], tolerance * bound[i] + 1e-30f)
            << what << " " << tensor::type_name(type) << " rows " << n_rows << " k " << k
            << " tokens " << n_tokens << " at " << i;
      }
    };
    find(table().matmul_f32, type)(weight.view, n_tokens, x.data(), k, mine.data(), n_rows);
    find(reference::kTable.matmul_f32, type)(weight.view, n_tokens, x.data(), k, theirs.data(),
                                             n_rows);
    check("f32");
    const size_t stride = q8_row_bytes(k);
    find(table().matmul_q8, type)(weight.view, n_tokens, q.data(), stride, mine.data(), n_rows);
    find(reference::kTable.matmul_q8, type)(weight.view, n_tokens, q.data(), stride, theirs.data(),
                                            n_rows);
    check("q8");
  }
};

TEST_P(Matmul, AgreesWithTheReference) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    for (ProductShape shape :
         {ProductShape{1, 256, 1}, ProductShape{7, 512, 1}, ProductShape{4, 768, 4},
          ProductShape{9, 256, 5}, ProductShape{5, 2048, 3}, ProductShape{3, 512, 38},
          ProductShape{0, 256, 2}, ProductShape{3, 256, 0}}) {
      compare(info.type, shape);
    }
  }
}

TEST_P(Matmul, AgreesForRowsThatAreNoMultipleOf256) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    for (size_t k : {32, 64, 96, 288, 896, 1, 7, 33, 259}) {
      if (!block_type_fits(info.type, k)) continue;
      compare(info.type, {5, k, 1});
      compare(info.type, {6, k, 6});
    }
  }
}

// By the numerics law, bits do not depend on tokens, tiles or ranges of rows.
TEST_P(Matmul, BitsDoNotDependOnHowACallIsCut) {
  constexpr size_t kRows = 37, kTokens = 39;
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    const size_t k = info.block_length == 256 ? 768 : 800;
    const Type type = info.type;
    const TestWeight weight(type, kRows, k, random_floats(kRows * k, 3, 0.05f));
    std::vector<float> x = random_floats(kTokens * k, 4);
    // The first token is about as small as quantization still takes into account.
    for (size_t i = 0; i < k; ++i) x[i] *= 10 * kQ8Smallest;
    const std::vector<std::byte> q = quantized(x, kTokens, k);
    const size_t stride = q8_row_bytes(k);
    std::vector<float> whole_f32(kTokens * kRows), whole_q8(kTokens * kRows);
    find(table().matmul_f32, type)(weight.view, kTokens, x.data(), k, whole_f32.data(), kRows);
    find(table().matmul_q8, type)(weight.view, kTokens, q.data(), stride, whole_q8.data(), kRows);
    for (size_t step_tokens : {1, 3, 5, 17}) {
      for (size_t step_rows : {1, 3, 17, 37}) {
        std::vector<float> cut_f32(kTokens * kRows), cut_q8(kTokens * kRows);
        for (size_t t = 0; t < kTokens; t += step_tokens) {
          const size_t n = std::min(step_tokens, kTokens - t);
          for (size_t r = 0; r < kRows; r += step_rows) {
            MatmulWeight part = weight.view;
            part.first_row = r;
            part.last_row = std::min(r + step_rows, kRows);
            find(table().matmul_f32, type)(part, n, x.data() + t * k, k, cut_f32.data() + t * kRows,
                                           kRows);
            find(table().matmul_q8, type)(part, n, q.data() + t * stride, stride,
                                          cut_q8.data() + t * kRows, kRows);
          }
        }
        EXPECT_EQ(cut_f32, whole_f32) << info.name << " " << step_tokens << " " << step_rows;
        EXPECT_EQ(cut_q8, whole_q8) << info.name << " " << step_tokens << " " << step_rows;
      }
    }
  }
}

// Sets the scale of a block and, where it has one, its minimum to 1.
void make_scales_one(Type type, std::byte* block) {
  const uint16_t ones[] = {0x3c00, 0x3c00};
  switch (type) {
    case Type::kQ4_1:
    case Type::kQ5_1:
    case Type::kQ4_K:
    case Type::kQ5_K:
      std::memcpy(block, ones, 4);
      break;
    case Type::kQ2_K:
      std::memcpy(block + 80, ones, 4);
      break;
    case Type::kQ3_K:
      std::memcpy(block + 108, ones, 2);
      break;
    case Type::kQ6_K:
      std::memcpy(block + 208, ones, 2);
      break;
    case Type::kMXFP4:
      block[0] = std::byte{128};
      break;
    default:
      std::memcpy(block, ones, 2);
  }
}

// With scales that are powers of two, every sum is a whole number that floats hold exactly, so
// implementations must agree to the bit. The levels are random bytes and extremes.
TEST_P(Matmul, WholeNumbersAgreeToTheBit) {
  constexpr size_t kRows = 6, kColumns = 512, kTokens = 5;
  const size_t stride = q8_row_bytes(kColumns);
  std::mt19937 random(5);
  std::vector<float> x(kTokens * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(random() % 255) - 127);
    if (i % 32 == 0) x[i] = 127;  // makes the scale of the block 1
    if (i < kColumns) x[i] = i % 2 == 0 ? 127 : -127;
    if (i >= kColumns && i < 2 * kColumns) x[i] = 127;
  }
  const std::vector<std::byte> q = quantized(x, kTokens, kColumns);
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    const Type type = info.type;
    if (tensor::is_float(type)) continue;
    TestWeight weight(type, kRows, kColumns, std::vector<float>(kRows * kColumns));
    for (size_t i = 0; i + 1 < weight.storage.size(); i += info.block_bytes) {
      std::byte* block = weight.storage.data() + 1 + i;
      for (size_t j = 0; j < info.block_bytes; ++j) {
        block[j] = static_cast<std::byte>(i == 0 ? 0x80 : i == info.block_bytes ? 0xff : random());
      }
      make_scales_one(type, block);
    }
    std::vector<float> mine(kTokens * kRows), theirs(kTokens * kRows);
    find(table().matmul_q8, type)(weight.view, kTokens, q.data(), stride, mine.data(), kRows);
    find(reference::kTable.matmul_q8, type)(weight.view, kTokens, q.data(), stride, theirs.data(),
                                            kRows);
    // The scales within super-blocks can carry their sums beyond 2^24, which floats do not hold
    // exactly.
    if (info.block_length == 256) {
      for (size_t i = 0; i < mine.size(); ++i) {
        EXPECT_NEAR(mine[i], theirs[i], 1e-6 * std::fabs(theirs[i]) + 8) << info.name;
      }
    } else {
      EXPECT_EQ(mine, theirs) << info.name;
    }
  }
}

TEST_P(Matmul, StridesLeaveTheGapsAlone) {
  const TestWeight weight(Type::kQ8_0, 3, 64, random_floats(3 * 64, 6));
  const std::vector<float> x = random_floats(2 * 80, 7);
  std::vector<float> y(2 * 10, 99);
  find(table().matmul_f32, Type::kQ8_0)(weight.view, 2, x.data(), 80, y.data(), 10);
  for (size_t i : {3, 9, 13, 19}) EXPECT_EQ(y[i], 99);
  for (size_t i : {0, 2, 10, 12}) EXPECT_NE(y[i], 99);
}

TEST_P(Matmul, QuantisedActivationsEqualTheReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (size_t k : {1, 31, 32, 33, 256, 896, 1000}) {
    std::vector<float> x = random_floats(k, 8, 3.0f);
    for (int variant = 0; variant < 5; ++variant) {
      if (variant == 1) x[k / 2] = kInfinity;
      if (variant == 2) x[k / 2] = -kInfinity;
      if (variant == 3) x[k / 2] = std::numeric_limits<float>::quiet_NaN();
      if (variant == 4) x.assign(k, 1e-38f);
      const std::vector<std::byte> theirs = quantized(x, 1, k);
      std::vector<std::byte> mine(q8_row_bytes(k), std::byte{0x55});
      table().quantize_activations(x.data(), mine.data(), k);
      EXPECT_EQ(mine, theirs) << k << " " << variant;
    }
  }
}

TEST(Activations, RoundTripIsWithinHalfAStep) {
  const size_t k = 300;
  const std::vector<float> x = random_floats(k, 9);
  const std::vector<std::byte> bytes = quantized(x, 1, k);
  const Q8Row row = q8_row(bytes.data(), k);
  for (size_t i = 0; i < k; ++i) {
    EXPECT_NEAR(row.q[i] * row.scale[i / 32], x[i], row.scale[i / 32] * 0.5001f);
  }
  for (size_t s = 0; s < q8_padded(k) / 16; ++s) {
    int sum = 0;
    for (size_t i = 16 * s; i < 16 * s + 16; ++i) sum += row.q[i];
    EXPECT_EQ(row.sum[s], sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Matmul, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
