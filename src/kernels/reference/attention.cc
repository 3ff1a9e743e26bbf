#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/kv.h"
#include "kernels/reference/reference.h"
#include "tensor/codec.h"

namespace troika::kernels::reference {
namespace {

double score(const Attention& args, const float* q, uint32_t slot) {
  float k[kMaxHeadSize];
  tensor::dequantize_row(args.k.type, kv_row(args.k, slot), k, args.head_size);
  double dot = 0;
  for (uint32_t i = 0; i < args.head_size; ++i) dot += static_cast<double>(q[i]) * k[i];
  dot *= args.scale;
  return args.soft_cap > 0 ? args.soft_cap * std::tanh(dot / args.soft_cap) : dot;
}

void attend(const Attention& args, const float* q, float* out) {
  const size_t n = args.prefix.size() + args.own.size();
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < n; ++i) {
    largest = std::max(largest, score(args, q, visible_slot(args, i)));
  }
  double sums[kMaxHeadSize] = {};
  double total = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t slot = visible_slot(args, i);
    const double weight = std::exp(score(args, q, slot) - largest);
    float v[kMaxHeadSize];
    tensor::dequantize_row(args.v.type, kv_row(args.v, slot), v, args.head_size);
    for (uint32_t j = 0; j < args.head_size; ++j) sums[j] += weight * v[j];
    total += weight;
  }
  for (uint32_t j = 0; j < args.head_size; ++j) {
    out[j] = n > 0 ? static_cast<float>(sums[j] / total) : 0;
  }
}

}  // namespace

void attention(const Attention& args) {
  TROIKA_ASSERT(args.head_size <= kMaxHeadSize);
  for (uint32_t h = 0; h < args.n_heads; ++h) {
    attend(args, args.q + h * args.q_stride, args.out + h * args.out_stride);
  }
}

void store_kv(Type type, const float* x, std::byte* row, size_t n) {
  tensor::quantize_row(type, x, row, n);
}

}  // namespace troika::kernels::reference
