#include "kernels/reference/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "tensor/codec.h"
#include "tensor/q4_0.h"
#include "tensor/q4_k.h"
#include "tensor/q5_0.h"
#include "tensor/q6_k.h"
#include "tensor/q8_0.h"

namespace troika::kernels::reference {
namespace {

using namespace tensor;  // the block formats

// The block of a type; void for float types.
template <Type kType>
struct BlockOfType {
  using Block = void;
};
template <>
struct BlockOfType<Type::kQ4_0> {
  using Block = BlockQ4_0;
};
template <>
struct BlockOfType<Type::kQ5_0> {
  using Block = BlockQ5_0;
};
template <>
struct BlockOfType<Type::kQ8_0> {
  using Block = BlockQ8_0;
};
template <>
struct BlockOfType<Type::kQ4_K> {
  using Block = BlockQ4_K;
};
template <>
struct BlockOfType<Type::kQ6_K> {
  using Block = BlockQ6_K;
};

constexpr size_t kChunk = 256;  // a multiple of every block length

// The weights of row r from element i on, at most kChunk of them; returns how many.
template <Type kType>
size_t decode_chunk(const MatmulWeight& weight, size_t r, size_t i, float* chunk) {
  const size_t n = std::min(kChunk, weight.k - i);
  const std::byte* row = weight.data + r * weight.row_bytes;
  dequantize_row(kType, row + row_bytes(kType, i), chunk, n);
  return n;
}

// Float weights have no levels to multiply: the activations are decoded instead.
template <Type kType>
void multiply_floats(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    for (size_t t = 0; t < n_tokens; ++t) {
      const Q8Row token = q8_row(x + t * x_stride_bytes, weight.k);
      double sum = 0;
      for (size_t i = 0; i < weight.k; i += kChunk) {
        float w[kChunk];
        const size_t n = decode_chunk<kType>(weight, r, i, w);
        for (size_t j = i; j < i + n; ++j) {
          sum += static_cast<double>(w[j - i]) * token.scale[j / kQ8Block] * token.q[j];
        }
      }
      y[t * y_stride + r] = static_cast<float>(sum);
    }
  }
}

int32_t dot(const int8_t* a, const int8_t* b, size_t n) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One block of weights times the activations from element i on: what the format means, with whole
// numbers inside of each group.
template <typename Block>
double block_dot(const Block& block, const Q8Row& x, size_t i) {
  int8_t q[Block::kLength];
  unpack(block, q);
  return static_cast<double>(load_f16(block.d)) * x.scale[i / kQ8Block] * dot(q, x.q + i, 32);
}

double block_dot(const BlockQ4_K& block, const Q8Row& x, size_t i) {
  int8_t q[256];
  unpack(block, q);
  const double d = load_f16(block.d);
  const double dmin = load_f16(block.dmin);
  double sum = 0;
  for (int g = 0; g < 8; ++g, i += 32) {
    const GroupScale group = group_scale(block, g);
    const int32_t levels = group.scale * dot(q + 32 * g, x.q + i, 32);
    const int32_t minima = group.min * (x.sum[i / 16] + x.sum[i / 16 + 1]);
    sum += x.scale[i / kQ8Block] * (d * levels - dmin * minima);
  }
  return sum;
}

double block_dot(const BlockQ6_K& block, const Q8Row& x, size_t i) {
  int8_t q[256];
  unpack(block, q);
  double sum = 0;
  for (int g = 0; g < 16; ++g, i += 16) {
    sum += x.scale[i / kQ8Block] * (block.scales[g] * dot(q + 16 * g, x.q + i, 16));
  }
  return sum * load_f16(block.d);
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

}  // namespace

template <Type kType>
void matmul_f32(const MatmulWeight& weight, size_t n_tokens, const float* x, size_t x_stride,
                float* y, size_t y_stride) {
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    for (size_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (size_t i = 0; i < weight.k; i += kChunk) {
        float w[kChunk];
        const size_t n = decode_chunk<kType>(weight, r, i, w);
        for (size_t j = 0; j < n; ++j) sum += static_cast<double>(w[j]) * x[t * x_stride + i + j];
      }
      y[t * y_stride + r] = static_cast<float>(sum);
    }
  }
}

template <Type kType>
void matmul_q8(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
               size_t x_stride_bytes, float* y, size_t y_stride) {
  using BlockOf = typename BlockOfType<kType>::Block;
  if constexpr (std::is_void_v<BlockOf>) {
    multiply_floats<kType>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
  } else {
    multiply_blocks<BlockOf>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
  }
}

#define TROIKA_INSTANTIATE(type)       \
  template MatmulF32 matmul_f32<type>; \
  template MatmulQ8 matmul_q8<type>;
TROIKA_INSTANTIATE(Type::kF32)
TROIKA_INSTANTIATE(Type::kF16)
TROIKA_INSTANTIATE(Type::kBF16)
TROIKA_INSTANTIATE(Type::kQ4_0)
TROIKA_INSTANTIATE(Type::kQ5_0)
TROIKA_INSTANTIATE(Type::kQ8_0)
TROIKA_INSTANTIATE(Type::kQ4_K)
TROIKA_INSTANTIATE(Type::kQ6_K)
#undef TROIKA_INSTANTIATE

void quantize_activations(const float* x, std::byte* y, size_t k) {
  const Q8Row row = q8_row(y, k);
  auto* q = const_cast<int8_t*>(row.q);
  auto* scale = const_cast<float*>(row.scale);
  auto* sum = const_cast<int16_t*>(row.sum);
  for (size_t i = 0; i < q8_padded(k); i += kQ8Block) {
    float block[kQ8Block] = {};
    float largest = 0;
    for (size_t j = 0; j < kQ8Block && i + j < k; ++j) {
      constexpr float kMax = std::numeric_limits<float>::max();
      block[j] = std::isnan(x[i + j]) ? 0 : std::clamp(x[i + j], -kMax, kMax);
      largest = std::max(largest, std::fabs(block[j]));
    }
    const bool some = largest >= kQ8Smallest;
    const float inverse = some ? 127.0f / largest : 0.0f;
    scale[i / kQ8Block] = some ? largest / 127.0f : 0.0f;
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
