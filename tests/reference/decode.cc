#include "tests/reference/decode.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troika::reference {
namespace {

double half_at(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return decode_half(bits);
}

void decode_f32(const uint8_t* b, double* y) {
  float value;
  std::memcpy(&value, b, sizeof value);
  *y = value;
}

void decode_f16(const uint8_t* b, double* y) { *y = half_at(b); }

// The upper half of an F32.
void decode_bf16(const uint8_t* b, double* y) {
  const uint8_t padded[4] = {0, 0, b[0], b[1]};
  decode_f32(padded, y);
}

// 32 elements: scale d (F16), then 16 bytes; the low nibbles are elements 0..15, the high ones
// 16..31, each minus 8.
void decode_q4_0(const uint8_t* b, double* y) {
  const double d = half_at(b);
  const uint8_t* nibbles = b + 2;
  for (int i = 0; i < 16; ++i) {
    y[i] = d * ((nibbles[i] & 15) - 8);
    y[i + 16] = d * ((nibbles[i] >> 4) - 8);
  }
}

// As Q4_0, with a fifth bit for each element in a 32-bit word after the scale; minus 16.
void decode_q5_0(const uint8_t* b, double* y) {
  const double d = half_at(b);
  uint32_t fifth;
  std::memcpy(&fifth, b + 2, sizeof fifth);
  const uint8_t* nibbles = b + 6;
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    const int high = (fifth >> i) & 1;
    y[i] = d * (low + 16 * high - 16);
  }
}

// 32 elements: scale d (F16), then signed bytes.
void decode_q8_0(const uint8_t* b, double* y) {
  const double d = half_at(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<int8_t>(b[2 + i]);
}

// 256 elements in 8 groups of 32: d, dmin (F16), 12 bytes with a 6-bit scale and a 6-bit minimum
// for each group, 128 bytes of nibbles. Element = d * scale * nibble - dmin * minimum.
void decode_q4_k(const uint8_t* b, double* y) {
  const double d = half_at(b), dmin = half_at(b + 2);
  const uint8_t* packed = b + 4;
  const uint8_t* nibbles = b + 16;
  for (int group = 0; group < 8; ++group) {
    int scale, minimum;
    if (group < 4) {
      scale = packed[group] & 63;
      minimum = packed[group + 4] & 63;
    } else {  // four bits in the last four bytes, the upper two on top of the first eight
      scale = (packed[group + 4] & 15) + 16 * (packed[group - 4] >> 6);
      minimum = (packed[group + 4] >> 4) + 16 * (packed[group] >> 6);
    }
    for (int i = 0; i < 32; ++i) {  // groups 0 and 1 share 32 bytes, so do 2 and 3, ...
      const uint8_t byte = nibbles[group / 2 * 32 + i];
      const int nibble = group % 2 == 0 ? byte & 15 : byte >> 4;
      y[group * 32 + i] = d * scale * nibble - dmin * minimum;
    }
  }
}

// 256 elements: 128 bytes with the low four bits, 64 bytes with the upper two, a signed scale for
// each 16 elements, d (F16). In each half of 128, elements l, l+32, l+64, l+96 (l < 32) share byte
// l of the upper bits; the low bits of l and l+64 share a byte, and so do those of l+32 and l+96.
void decode_q6_k(const uint8_t* b, double* y) {
  const uint8_t* low = b;
  const uint8_t* upper = b + 128;
  const uint8_t* scales = b + 192;
  const double d = half_at(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const uint8_t low_byte = low[half * 64 + quarter % 2 * 32 + l];
    const int low_bits = quarter < 2 ? low_byte & 15 : low_byte >> 4;
    const int upper_bits = (upper[half * 32 + l] >> (2 * quarter)) & 3;
    y[i] = d * static_cast<int8_t>(scales[i / 16]) * (low_bits + 16 * upper_bits - 32);
  }
}

struct Format {
  uint32_t type;
  size_t elements, bytes;  // of a block
  void (*decode)(const uint8_t*, double*);
};

constexpr Format kFormats[] = {
    {kF32, 1, 4, decode_f32},       {kF16, 1, 2, decode_f16},       {kBF16, 1, 2, decode_bf16},
    {kQ4_0, 32, 18, decode_q4_0},   {kQ5_0, 32, 22, decode_q5_0},   {kQ8_0, 32, 34, decode_q8_0},
    {kQ4_K, 256, 144, decode_q4_k}, {kQ6_K, 256, 210, decode_q6_k},
};

const Format& find_format(uint32_t type) {
  for (const Format& format : kFormats) {
    if (format.type == type) return format;
  }
  throw std::runtime_error("unknown element type " + std::to_string(type));
}

}  // namespace

double decode_half(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

size_t encoded_bytes(uint32_t type, size_t n_elements) {
  const Format& format = find_format(type);
  if (n_elements % format.elements != 0) throw std::runtime_error("a row ends inside a block");
  return n_elements / format.elements * format.bytes;
}

std::vector<double> decode(uint32_t type, const uint8_t* bytes, size_t n_elements) {
  const Format& format = find_format(type);
  encoded_bytes(type, n_elements);  // checks that the blocks are whole
  std::vector<double> values(n_elements);
  for (size_t block = 0; block < n_elements / format.elements; ++block) {
    format.decode(bytes + block * format.bytes, &values[block * format.elements]);
  }
  return values;
}

}  // namespace troika::reference
