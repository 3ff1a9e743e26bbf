#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reference/reference.h"
#include "tensor/codec.h"
#include "tensor/half.h"

namespace troika::kernels::reference {

float weigh_scores(const float* scores, size_t n, OnlineSoftmax* softmax, uint16_t* weights) {
  double largest = softmax->largest;
  for (size_t p = 0; p < n; ++p) largest = std::max<double>(largest, scores[p]);
  const double factor = softmax->total > 0 ? std::exp(softmax->largest - largest) : 1.0;
  double total = softmax->total * factor;
  std::fill_n(weights, kPromptBlock, uint16_t{0});
  for (size_t p = 0; p < n; ++p) {
    const double weight = std::exp(scores[p] - largest);
    total += weight;
    weights[p] = tensor::f32_to_bf16(static_cast<float>(weight));
  }
  softmax->largest = static_cast<float>(largest);
  softmax->total = static_cast<float>(total);
  return static_cast<float>(factor);
}

void raise_largest(const float* scores, size_t stride, const float* minus, size_t n_queries,
                   size_t n, float* largest) {
  for (size_t q = 0; q < n_queries; ++q) {
    for (size_t p = 0; p < n; ++p) {
      const float score = scores[q * stride + p] - minus[q];
      if (score > largest[p]) largest[p] = score;
    }
  }
}

void mark_first(const float* scores, size_t stride, const float* limits, const float* marks,
                size_t n_queries, size_t n, float* first) {
  for (size_t p = 0; p < n; ++p) {
    for (size_t q = 0; q < n_queries; ++q) {
      if (!(scores[q * stride + p] > limits[q])) continue;
      first[p] = marks[q];
      break;
    }
  }
}

void load_kv(Type type, const std::byte* row, float* x, size_t n) {
  tensor::dequantize_row(type, row, x, n);
}

void pack_values(Type type, const std::byte* const* rows, size_t n, size_t head_size,
                 uint16_t* panel) {
  const size_t depth = bf16_depth(n);
  std::memset(panel, 0, n_strips(head_size) * kStripRows * depth * sizeof(uint16_t));
  float row[kMaxHeadSize];
  for (size_t p = 0; p < n; ++p) {
    tensor::dequantize_row(type, rows[p], row, head_size);
    for (size_t i = 0; i < head_size; ++i) {
      panel[i / kStripRows * kStripRows * depth + p / 2 * kStripRows * 2 + i % kStripRows * 2 +
            p % 2] = tensor::f32_to_bf16(row[i]);
    }
  }
}

}  // namespace troika::kernels::reference
