#include "kernels/reference/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/reference/values.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"

namespace troika::kernels::reference {
namespace {

using namespace tensor;  // the block formats

// Counts the tokens for which a stretch of weights is decoded once, because decoding costs more
// than the products do.
constexpr size_t kTokensTogether = 32;

// Decodes the weights of row r from element i on, at most kChunk of them; returns how many.
size_t decode_chunk(Type type, const MatmulWeight& weight, size_t r, size_t i, float* chunk) {
  const size_t n = std::min(kChunk, weight.k - i);
  const std::byte* row = weight.data + r * weight.row_bytes;
  dequantize_row(type, row + row_bytes(type, i), chunk, n);
  return n;
}

// Writes each row's product with each token. add(token, first, weights, n, sum) returns the sum of
// earlier elements plus that of the n from `first` on.
template <typename Add>
void for_each_token_and_stretch(Type type, const MatmulWeight& weight, size_t n_tokens, float* y,
                                size_t y_stride, Add add) {
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    for (size_t first = 0; first < n_tokens; first += kTokensTogether) {
      const size_t last = std::min(first + kTokensTogether, n_tokens);
      double sums[kTokensTogether] = {};
      for (size_t i = 0; i < weight.k; i += kChunk) {
        float w[kChunk];
        const size_t n = decode_chunk(type, weight, r, i, w);
        for (size_t t = first; t < last; ++t) sums[t - first] = add(t, i, w, n, sums[t - first]);
      }
      for (size_t t = first; t < last; ++t) {
        y[t * y_stride + r] = static_cast<float>(sums[t - first]);
      }
    }
  }
}

// Float weights have no levels to multiply: the activations are decoded instead.
template <Type kType>
void multiply_floats(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  for_each_token_and_stretch(kType, weight, n_tokens, y, y_stride,
                             [&](size_t t, size_t i, const float* w, size_t n, double sum) {
                               const Q8Row token = q8_row(x + t * x_stride_bytes, weight.k);
                               for (size_t j = i; j < i + n; ++j) {
                                 sum += static_cast<double>(w[j - i]) * token.scale[j / kQ8Block] *
                                        token.q[j];
                               }
                               return sum;
                             });
}

// There are four sums, because one alone would wait for each of its additions.
double dot(const float* a, const float* b, size_t n) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    sums[0] += static_cast<double>(a[i]) * b[i];
    sums[1] += static_cast<double>(a[i + 1]) * b[i + 1];
    sums[2] += static_cast<double>(a[i + 2]) * b[i + 2];
    sums[3] += static_cast<double>(a[i + 3]) * b[i + 3];
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

int32_t dot(const int8_t* a, const int8_t* b, size_t n) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Multiplies one block of weights with the activations from element i on, as the format means it:
// with whole numbers inside of each group.
template <typename Block>
double block_dot(const Block& block, const Q8Row& x, size_t i) {
  Affine groups[Block::kLength / Block::kGroup];
  int8_t q[Block::kLength];
  find_groups(block, groups);
  unpack(block, q);
  double sum = 0;
  for (size_t j = 0; j < Block::kLength; j += Block::kGroup) {
    const auto [scale, min] = groups[j / Block::kGroup];
    int32_t x_sum = 0;
    for (size_t s = 0; s < Block::kGroup; s += kQ8SumBlock)
      x_sum += x.sum[(i + j + s) / kQ8SumBlock];
    sum += x.scale[(i + j) / kQ8Block] *
           (static_cast<double>(scale) * dot(q + j, x.q + i + j, Block::kGroup) -
            static_cast<double>(min) * x_sum);
  }
  return sum;
}

template <typename Block>
void multiply_blocks(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    for (size_t t = 0; t < n_tokens; ++t) {
      const Q8Row token = q8_row(x + t * x_stride_bytes, weight.k);
      const std::byte* bytes = weight.data + r * weight.row_bytes;
      double sum = 0;
      for (size_t i = 0; i < weight.k; i += Block::kLength, bytes += sizeof(Block)) {
        Block block;
        std::memcpy(&block, bytes, sizeof(Block));
        sum += block_dot(block, token, i);
      }
      y[t * y_stride + r] = static_cast<float>(sum);
    }
  }
}

constexpr ByType<MatmulQ8> kMatmulQ8 = by_type<MatmulQ8>([]<Type kType>() {
  if constexpr (is_float(kType)) {
    return multiply_floats<kType>;
  } else {
    return multiply_blocks<BlockOf<kType>>;
  }
});

}  // namespace

void matmul_f32(Type type, const MatmulWeight& weight, size_t n_tokens, const float* x,
                size_t x_stride, float* y, size_t y_stride) {
  for_each_token_and_stretch(type, weight, n_tokens, y, y_stride,
                             [&](size_t t, size_t i, const float* w, size_t n, double sum) {
                               return sum + dot(w, x + t * x_stride + i, n);
                             });
}

void matmul_q8(Type type, const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
               size_t x_stride_bytes, float* y, size_t y_stride) {
  find(kMatmulQ8, type)(weight, n_tokens, x, x_stride_bytes, y, y_stride);
}

void quantize_activations(const float* x, std::byte* y, size_t k) {
  const Q8Row row = q8_row(y, k);
  auto* q = const_cast<int8_t*>(row.q);
  auto* scale = const_cast<float*>(row.scale);
  auto* sum = const_cast<int16_t*>(row.sum);
  for (size_t i = 0; i < q8_padded(k); i += kQ8Block) {
    float block[kQ8Block] = {};
    float largest = 0;
    bool are_all_finite = true;
    for (size_t j = 0; j < kQ8Block && i + j < k; ++j) {
      are_all_finite = are_all_finite && std::isfinite(x[i + j]);
      block[j] = finite(x[i + j]);
      largest = std::max(largest, std::fabs(block[j]));
    }
    const bool some = largest >= kQ8Smallest;
    const float inverse = some ? 127.0f / largest : 0.0f;
    scale[i / kQ8Block] = !are_all_finite ? kNoNumber : some ? largest / 127.0f : 0.0f;
    for (size_t half = 0; half < kQ8Block; half += kQ8SumBlock) {
      int total = 0;
      for (size_t j = half; j < half + kQ8SumBlock; ++j) {
        const int level = static_cast<int>(std::nearbyint(block[j] * inverse));
        q[i + j] = static_cast<int8_t>(level);
        total += level;
      }
      sum[(i + half) / kQ8SumBlock] = static_cast<int16_t>(total);
    }
  }
}

}  // namespace troika::kernels::reference
