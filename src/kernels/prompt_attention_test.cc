#include "kernels/prompt_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/panels_test_support.h"
#include "tensor/half.h"

namespace troika::kernels {
namespace {

class PromptAttention : public EveryImplementation {};

// The blocks come one after the other, so that the largest score rises, falls and stays.
TEST_P(PromptAttention, WeightsAgreeWithTheReference) {
  for (const size_t n : {1, 3, 16, 31, 64, 127, 128}) {
    OnlineSoftmax mine, theirs;
    for (const float spread : {1.0f, 30.0f, 0.1f, 300.0f, 1.0f}) {
      const std::vector<float> scores = random_floats(n, static_cast<uint32_t>(n), spread);
      std::vector<uint16_t> my_weights(kPromptBlock, 7), their_weights(kPromptBlock, 7);
      const float my_factor = table().weigh_scores(scores.data(), n, &mine, my_weights.data());
      const float their_factor =
          reference::kTable.weigh_scores(scores.data(), n, &theirs, their_weights.data());
      EXPECT_EQ(mine.largest, theirs.largest);
      EXPECT_NEAR(mine.total, theirs.total, 1e-4f * theirs.total);
      EXPECT_NEAR(my_factor, their_factor, 1e-6f);
      for (size_t p = 0; p < kPromptBlock; ++p) {
        const float weight = tensor::bf16_to_f32(their_weights[p]);
        // The weights may differ by one step of bfloat16.
        ASSERT_NEAR(tensor::bf16_to_f32(my_weights[p]), weight, weight / 128 + 1e-37f)
            << n << " at " << p;
        if (p >= n) {
          ASSERT_EQ(my_weights[p], 0);
        }
      }
    }
  }
}

TEST_P(PromptAttention, AScoreThatIsNoNumberSpoilsItsQuery) {
  std::vector<float> scores = random_floats(40, 3);
  scores[17] = std::numeric_limits<float>::quiet_NaN();
  OnlineSoftmax softmax;
  std::vector<uint16_t> weights(kPromptBlock);
  table().weigh_scores(scores.data(), scores.size(), &softmax, weights.data());
  EXPECT_TRUE(std::isnan(softmax.total) || std::isnan(tensor::bf16_to_f32(weights[17])));
}

TEST_P(PromptAttention, PackedValuesEqualTheReferenceToTheBit) {
  for (const Type type : {Type::kF32, Type::kF16, Type::kQ8_0}) {
    for (const size_t head_size : {32, 40, 64, 80, 96, 128, 256}) {
      if (type == Type::kQ8_0 && head_size % 32 != 0) continue;
      for (const size_t n : {1, 2, 17, 32, 63, 128}) {
        const TestWeight values(type, n, head_size, random_floats(n * head_size, 5));
        std::vector<const std::byte*> rows;
        for (size_t p = n; p-- > 0;) rows.push_back(values.view.data + p * values.view.row_bytes);
        const size_t length = n_strips(head_size) * kStripRows * bf16_depth(n);
        Aligned<uint16_t> mine(length), theirs(length);
        table().pack_values(type, rows.data(), n, head_size, mine.get());
        reference::kTable.pack_values(type, rows.data(), n, head_size, theirs.get());
        EXPECT_TRUE(mine == theirs)
            << tensor::type_name(type) << " head " << head_size << ", " << n << " positions";
      }
    }
  }
}

TEST_P(PromptAttention, S1LargestScoresEqualTheReferenceToTheBit) {
  for (const size_t n : {1, 5, 16, 64, 100, 128}) {
    for (const size_t n_queries : {1, 3, 64}) {
      const size_t stride = 128;
      std::vector<float> scores = random_floats(n_queries * stride, 9, 4.0f);
      scores[n / 2] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> minus = random_floats(n_queries, 10);
      std::vector<float> mine = random_floats(n, 11), theirs = mine;
      mine.front() = theirs.front() = -std::numeric_limits<float>::infinity();
      table().raise_largest(scores.data(), stride, minus.data(), n_queries, n, mine.data());
      reference::kTable.raise_largest(scores.data(), stride, minus.data(), n_queries, n,
                                      theirs.data());
      EXPECT_EQ(mine, theirs) << n << " of " << n_queries;
    }
  }
}

TEST_P(PromptAttention, S2FirstScoresAboveEqualTheReferenceToTheBit) {
  for (const size_t n : {1, 5, 16, 64, 100, 128}) {
    for (const size_t n_queries : {1, 3, 64}) {
      const size_t stride = 128;
      std::vector<float> scores = random_floats(n_queries * stride, 19, 4.0f);
      scores[n / 2] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> limits = random_floats(n_queries, 20, 8.0f), marks(n_queries);
      // A score that equals the limit is not above it.
      if (n_queries > 1) limits.back() = scores[(n_queries - 1) * stride];
      std::iota(marks.begin(), marks.end(), 0.0f);
      std::vector<float> mine(n, 99.0f), theirs = mine;
      table().mark_first(scores.data(), stride, limits.data(), marks.data(), n_queries, n,
                         mine.data());
      reference::kTable.mark_first(scores.data(), stride, limits.data(), marks.data(), n_queries, n,
                                   theirs.data());
      EXPECT_EQ(mine, theirs) << n << " of " << n_queries;
    }
  }
}

TEST_P(PromptAttention, LoadedRowsEqualTheReferenceToTheBit) {
  for (const Type type : {Type::kF32, Type::kF16, Type::kQ8_0}) {
    for (const size_t n : {32, 40, 64, 80, 128}) {
      if (type == Type::kQ8_0 && n % 32 != 0) continue;
      const TestWeight row(type, 1, n, random_floats(n, 5));
      std::vector<float> mine(n), theirs(n);
      table().load_kv(type, row.view.data, mine.data(), n);
      reference::kTable.load_kv(type, row.view.data, theirs.data(), n);
      EXPECT_EQ(mine, theirs) << tensor::type_name(type) << ", " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, PromptAttention, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
