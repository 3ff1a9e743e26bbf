#include "tensor/codec.h"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/blocks.h"

namespace troika::tensor {
namespace {

template <typename Block>
void encode_row(const float* x, void* y, size_t n) {
  auto* bytes = static_cast<std::byte*>(y);
  for (size_t i = 0; i < n; i += Block::kLength, bytes += sizeof(Block)) {
    Block block;
    encode(x + i, block);
    std::memcpy(bytes, &block, sizeof(Block));
  }
}

template <typename Block>
void decode_row(const void* x, float* y, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(x);
  for (size_t i = 0; i < n; i += Block::kLength, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    decode(block, y + i);
  }
}

template <uint16_t (*kConvert)(float)>
void narrow_row(const float* x, void* y, size_t n) {
  auto* bytes = static_cast<std::byte*>(y);
  for (size_t i = 0; i < n; ++i) {
    const uint16_t value = kConvert(x[i]);
    std::memcpy(bytes + 2 * i, &value, sizeof(value));
  }
}

template <float (*kConvert)(uint16_t)>
void widen_row(const void* x, float* y, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(x);
  for (size_t i = 0; i < n; ++i) {
    uint16_t value;
    std::memcpy(&value, bytes + 2 * i, sizeof(value));
    y[i] = kConvert(value);
  }
}

void copy_to_bytes(const float* x, void* y, size_t n) {
  if (n != 0) std::memcpy(y, x, n * sizeof(float));
}

void copy_from_bytes(const void* x, float* y, size_t n) {
  if (n != 0) std::memcpy(y, x, n * sizeof(float));
}

bool holds_all(const float*, const void*, size_t) { return true; }

template <float (*kConvert)(uint16_t)>
bool holds_narrow(const float* x, const void* row, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(row);
  for (size_t i = 0; i < n; ++i) {
    uint16_t value;
    std::memcpy(&value, bytes + 2 * i, sizeof(value));
    if (std::isfinite(x[i]) && !std::isfinite(kConvert(value))) return false;
  }
  return true;
}

bool is_largest_half(const uint8_t* half) { return std::fabs(load_f16(half)) >= kMaxF16; }

// Says whether a scale or a minimum of the block is as large as can be.
template <typename Block>
bool has_largest_half(const Block& block) {
  bool has = false;
  if constexpr (requires { block.d; }) has |= is_largest_half(block.d);
  if constexpr (requires { block.dmin; }) has |= is_largest_half(block.dmin);
  if constexpr (requires { block.least; }) has |= is_largest_half(block.least);
  return has;
}

template <typename Block>
bool holds_blocks(const float* x, const void* row, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > kMostEncodable) return false;
  }
  const auto* bytes = static_cast<const std::byte*>(row);
  for (size_t i = 0; i < n; i += Block::kLength, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    if (has_largest_half(block)) return false;
  }
  return true;
}

struct Codec {
  Type type;
  void (*quantize)(const float*, void*, size_t);
  void (*dequantize)(const void*, float*, size_t);
  bool (*holds)(const float*, const void*, size_t);
};

template <Type kType>
constexpr Codec codec_of() {
  if constexpr (kType == Type::kF32) {
    return {kType, copy_to_bytes, copy_from_bytes, holds_all};
  } else if constexpr (kType == Type::kF16) {
    return {kType, narrow_row<f32_to_f16>, widen_row<f16_to_f32>, holds_narrow<f16_to_f32>};
  } else if constexpr (kType == Type::kBF16) {
    return {kType, narrow_row<f32_to_bf16>, widen_row<bf16_to_f32>, holds_narrow<bf16_to_f32>};
  } else {
    return {kType, encode_row<BlockOf<kType>>, decode_row<BlockOf<kType>>,
            holds_blocks<BlockOf<kType>>};
  }
}

template <size_t... kIndices>
constexpr auto all_codecs(std::index_sequence<kIndices...>) {
  return std::array{codec_of<kTypeTable[kIndices].type>()...};
}
constexpr auto kCodecs = all_codecs(std::make_index_sequence<std::size(kTypeTable)>());

const Codec& codec(Type type, size_t n) {
  TROIKA_ASSERT(n % type_info(type).block_length == 0);
  for (const Codec& codec : kCodecs) {
    if (codec.type == type) return codec;
  }
  assert_failed("every type of the table has a codec", __FILE__, __LINE__);
}

}  // namespace

void quantize_row(Type type, const float* x, void* y, size_t n) {
  codec(type, n).quantize(x, y, n);
}

bool holds(Type type, const float* x, const void* row, size_t n) {
  return codec(type, n).holds(x, row, n);
}

void dequantize_row(Type type, const void* x, float* y, size_t n) {
  codec(type, n).dequantize(x, y, n);
}

}  // namespace troika::tensor
