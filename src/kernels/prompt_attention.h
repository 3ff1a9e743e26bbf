// The parts of attention of a prompt's tokens. Many queries meet the same keys and values, so both
// products of attention are products with bfloat16 panels. Of keys, 16 positions are the 16 rows of
// a strip. Of values, each element of a head is a row, and positions are k. Between the two
// products stand the weights of an online softmax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace troika::kernels {

// Counts the positions of a block, whose scores are computed together. Blocks begin at multiples of
// this.
inline constexpr size_t kPromptBlock = 128;

// What one query has seen so far: its largest score, and the sum of all weights relative to that
// score.
struct OnlineSoftmax {
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0;
};

// Weighs one block of a query. Turns the first n scores (0 < n <= kPromptBlock) into weights in
// bfloat16, followed by zeros up to kPromptBlock, and adds them to `softmax`. Returns the factor by
// which earlier sums must be multiplied.
using WeighScores = float(const float* scores, size_t n, OnlineSoftmax* softmax, uint16_t* weights);

// Sets largest[p], for p < n, to scores[q * stride + p] - minus[q] where that is larger for a query
// q. What is not a number raises nothing. All implementations agree to the bit.
using RaiseLargest = void(const float* scores, size_t stride, const float* minus, size_t n_queries,
                          size_t n, float* largest);

// Sets first[p], for p < n, to marks[q] of the first query q whose score scores[q * stride + p] is
// above limits[q], if there is one. What is not a number is above nothing. All implementations
// agree to the bit.
using MarkFirst = void(const float* scores, size_t stride, const float* limits, const float* marks,
                       size_t n_queries, size_t n, float* first);

}  // namespace troika::kernels
