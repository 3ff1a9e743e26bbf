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

// A BF16 is the upper half of an F32.
void decode_bf16(const uint8_t* b, double* y) {
  const uint8_t padded[4] = {0, 0, b[0], b[1]};
  decode_f32(padded, y);
}

// A block of Q4_0 has 32 elements: scale d (F16), then 16 bytes. Their low nibbles are elements 0
// to 15, the high ones 16 to 31. Element = d * (nibble - 8).
void decode_q4_0(const uint8_t* b, double* y) {
  const double d = half_at(b);
  const uint8_t* nibbles = b + 2;
  for (int i = 0; i < 16; ++i) {
    y[i] = d * ((nibbles[i] & 15) - 8);
    y[i + 16] = d * ((nibbles[i] >> 4) - 8);
  }
}

// A block of Q4_1 has 32 elements: scale d and least value m (F16), then nibbles as in Q4_0.
// Element = d * nibble + m.
void decode_q4_1(const uint8_t* b, double* y) {
  const double d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * (b[4 + i] & 15) + m;
    y[i + 16] = d * (b[4 + i] >> 4) + m;
  }
}

// Q5_0 is Q4_0 with a fifth bit for each element, in a 32-bit word behind the scale. Element = d *
// (bits - 16).
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

// Q5_1 is Q4_1 with a fifth bit for each element, in a 32-bit word behind m.
void decode_q5_1(const uint8_t* b, double* y) {
  const double d = half_at(b), m = half_at(b + 2);
  uint32_t fifth;
  std::memcpy(&fifth, b + 4, sizeof fifth);
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? b[8 + i] & 15 : b[8 + i - 16] >> 4;
    y[i] = d * (low + 16 * (fifth >> i & 1)) + m;
  }
}

// A block of Q8_0 has 32 elements: scale d (F16), then signed bytes.
void decode_q8_0(const uint8_t* b, double* y) {
  const double d = half_at(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<int8_t>(b[2 + i]);
}

// A block of Q2_K has 256 elements in 16 groups of 16: a byte for each group, whose nibbles are a
// scale and a minimum; 64 bytes with two bits for each element; d, dmin (F16). In each half of 128,
// elements l, l+32, l+64, l+96 (l < 32) share a byte. Element = d * scale * bits - dmin * minimum.
void decode_q2_k(const uint8_t* b, double* y) {
  const double d = half_at(b + 80), dmin = half_at(b + 82);
  for (int i = 0; i < 256; ++i) {
    const int scale = b[i / 16] & 15, minimum = b[i / 16] >> 4;
    const int bits = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    y[i] = d * scale * bits - dmin * minimum;
  }
}

// A block of Q3_K has 256 elements in 16 groups of 16: 32 bytes with a third bit for each element
// (bit g of byte l for element 32 g + l), 64 bytes with two lower bits as in Q2_K, 12 bytes with a
// 6-bit scale for each group, d (F16). Element = d * (scale - 32) * (bits - 4).
void decode_q3_k(const uint8_t* b, double* y) {
  const double d = half_at(b + 108);
  const uint8_t* packed = b + 96;
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    // The first eight bytes hold the low four bits of two groups each. The last four bytes hold the
    // upper two bits of four groups each.
    const int four = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    const int scale = four + 16 * (packed[8 + group % 4] >> (2 * (group / 4)) & 3);
    const int low = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    const int third = b[i % 32] >> (i / 32) & 1;
    y[i] = d * (scale - 32) * (low + 4 * third - 4);
  }
}

struct ScaleAndMinimum {
  int scale, minimum;
};
// Returns the 6-bit scale and minimum of one of 8 groups. The 12 bytes of Q4_K and Q5_K hold those
// of groups 0 to 3 in the low six bits of the first eight bytes.
ScaleAndMinimum packed_pair(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  // The last four bytes hold the low four bits of groups 4 to 7. Their upper two bits are the upper
  // ones of the first eight bytes.
  return {(packed[group + 4] & 15) + 16 * (packed[group - 4] >> 6),
          (packed[group + 4] >> 4) + 16 * (packed[group] >> 6)};
}

// A block of Q4_K has 256 elements in 8 groups of 32: d, dmin (F16), 12 bytes with a 6-bit scale
// and a 6-bit minimum for each group, 128 bytes of nibbles. Element = d * scale * nibble - dmin *
// minimum.
void decode_q4_k(const uint8_t* b, double* y) {
  const double d = half_at(b), dmin = half_at(b + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [scale, minimum] = packed_pair(b + 4, group);
    for (int i = 0; i < 32; ++i) {  // groups 0 and 1 share 32 bytes, and so do groups 2 and 3, ...
      const uint8_t byte = b[16 + group / 2 * 32 + i];
      const int nibble = group % 2 == 0 ? byte & 15 : byte >> 4;
      y[group * 32 + i] = d * scale * nibble - dmin * minimum;
    }
  }
}

// Q5_K is Q4_K with a fifth bit for each element, in 32 bytes before the nibbles: bit g of byte i
// belongs to element i of group g.
void decode_q5_k(const uint8_t* b, double* y) {
  const double d = half_at(b), dmin = half_at(b + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [scale, minimum] = packed_pair(b + 4, group);
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = b[48 + group / 2 * 32 + i];
      const int nibble = group % 2 == 0 ? byte & 15 : byte >> 4;
      const int fifth = b[16 + i] >> group & 1;
      y[group * 32 + i] = d * scale * (nibble + 16 * fifth) - dmin * minimum;
    }
  }
}

// A block of Q6_K has 256 elements: 128 bytes with the low four bits, 64 bytes with the upper two,
// a signed scale for each 16 elements, d (F16). In each half of 128, elements l, l+32, l+64, l+96
// (l < 32) share byte l of the upper bits; the low bits of l and l+64 share a byte, and so do those
// of l+32 and l+96.
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

const int kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// A block of IQ4_NL has 32 elements: scale d (F16), then nibbles as in Q4_0, which choose one of 16
// integers.
void decode_iq4_nl(const uint8_t* b, double* y) {
  const double d = half_at(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * kUneven[b[2 + i] & 15];
    y[i + 16] = d * kUneven[b[2 + i] >> 4];
  }
}

// A block of IQ4_XS has 256 elements in 8 groups of 32: d (F16), a 16-bit word with the upper two
// bits of each group's scale, four bytes with the lower four, then 16 bytes for each group as in
// IQ4_NL. Element = d * (scale - 32) * integer.
void decode_iq4_xs(const uint8_t* b, double* y) {
  const double d = half_at(b);
  const int upper = b[2] + 256 * b[3];
  for (int group = 0; group < 8; ++group) {
    const int lower = group % 2 == 0 ? b[4 + group / 2] & 15 : b[4 + group / 2] >> 4;
    const int scale = lower + 16 * (upper >> (2 * group) & 3) - 32;
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = b[8 + 16 * group + i % 16];
      y[32 * group + i] = d * scale * kUneven[i < 16 ? byte & 15 : byte >> 4];
    }
  }
}

// A block of MXFP4 has 32 elements: the exponent of a power of two (127 added), then nibbles as in
// Q4_0, each a float of a sign, two bits of exponent and one of mantissa.
void decode_mxfp4(const uint8_t* b, double* y) {
  const double power = std::ldexp(1.0, b[0] - 127);
  for (int i = 0; i < 32; ++i) {
    const int code = i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4;
    const int exponent = code >> 1 & 3, mantissa = code & 1;
    const double magnitude =
        exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
    y[i] = (code & 8 ? -1 : 1) * magnitude * power;
  }
}

struct Format {
  uint32_t type;
  size_t elements, bytes;  // describe a block
  void (*decode)(const uint8_t*, double*);
};

constexpr Format kFormats[] = {
    {kF32, 1, 4, decode_f32},           {kF16, 1, 2, decode_f16},
    {kBF16, 1, 2, decode_bf16},         {kQ4_0, 32, 18, decode_q4_0},
    {kQ4_1, 32, 20, decode_q4_1},       {kQ5_0, 32, 22, decode_q5_0},
    {kQ5_1, 32, 24, decode_q5_1},       {kQ8_0, 32, 34, decode_q8_0},
    {kQ2_K, 256, 84, decode_q2_k},      {kQ3_K, 256, 110, decode_q3_k},
    {kQ4_K, 256, 144, decode_q4_k},     {kQ5_K, 256, 176, decode_q5_k},
    {kQ6_K, 256, 210, decode_q6_k},     {kIQ4_NL, 32, 18, decode_iq4_nl},
    {kIQ4_XS, 256, 136, decode_iq4_xs}, {kMXFP4, 32, 17, decode_mxfp4},
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
  encoded_bytes(type, n_elements);  // throws if blocks are not whole
  std::vector<double> values(n_elements);
  for (size_t block = 0; block < n_elements / format.elements; ++block) {
    format.decode(bytes + block * format.bytes, &values[block * format.elements]);
  }
  return values;
}

}  // namespace troika::reference
