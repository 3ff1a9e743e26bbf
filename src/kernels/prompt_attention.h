// What attention of a prompt's tokens is made of. Many queries meet the same keys and values, so
// that both of its products are products with bfloat16 panels: the keys of a block of positions are
// 16 rows of a strip each; of the values each element of a head is a row, and positions are k.
// Between them stand the weights of an online softmax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace troika::kernels {

// Positions whose scores are computed together, from multiples of it on.
inline constexpr size_t kPromptBlock = 128;

// What one query has seen so far: its largest score, and the sum of all weights relative to that.
struct OnlineSoftmax {
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0;
};

// One block of a query. Turns the first n scores (0 < n <= kPromptBlock) into weights in bfloat16,
// followed by zeros up to kPromptBlock, and takes them into `softmax`. Returns by what earlier sums
// are to be multiplied.
using WeighScores = float(const float* scores, size_t n, OnlineSoftmax* softmax, uint16_t* weights);

// For p < n, largest[p] becomes scores[q * stride + p] - minus[q] where a query q has more
// than that. What is not a number raises nothing. All implementations agree to the bit.
using RaiseLargest = void(const float* scores, size_t stride, const float* minus, size_t n_queries,
                          size_t n, float* largest);

// For p < n, first[p] becomes marks[q] of the first query q whose score scores[q * stride + p] is
// above limits[q], where there is one. What is not a number is above nothing. All implementations
// agree to the bit.
using MarkFirst = void(const float* scores, size_t stride, const float* limits, const float* marks,
                       size_t n_queries, size_t n, float* first);

}  // namespace troika::kernels
