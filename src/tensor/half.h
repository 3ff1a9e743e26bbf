// Half-precision (IEEE binary16) and bfloat16 numbers, kept as their 16 bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace troika::tensor {

inline constexpr float kMaxF16 = 65504.0f;

inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {  // zero or subnormal: the mantissa counts units of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

// Rounds to nearest, ties to even. Too large values become infinity; not-a-number stays so.
inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // a quiet not-a-number
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 65536 and above
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal. Adding 0.5 leaves, in the last bits of the sum, the
    // value in units of 2^-24, rounded to nearest even by the addition itself.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  const uint32_t rounded = magnitude + 0xfffu + odd - ((127u - 15u) << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

inline float bf16_to_f32(uint16_t brain) {
  return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16);
}

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Blocks keep their scales as bytes, because rows may stand at any address.
inline float load_f16(const uint8_t* bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return f16_to_f32(half);
}

// Returns the value that was stored, after rounding. Clamps to the largest finite half.
inline float store_f16(float value, uint8_t* bytes) {
  if (value > kMaxF16) value = kMaxF16;
  if (value < -kMaxF16) value = -kMaxF16;
  const uint16_t half = f32_to_f16(value);
  std::memcpy(bytes, &half, sizeof(half));
  return f16_to_f32(half);
}

}  // namespace troika::tensor
