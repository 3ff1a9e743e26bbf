#include "tests/support/random_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace troika::test_support {
namespace {

template <typename T>
void put(std::vector<uint8_t>& out, T value) {
  uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

// Returns the nearest half-precision number. REQUIRES: |value| < 65504.
uint16_t to_half(double value) {
  const uint16_t sign = value < 0 ? 0x8000 : 0;
  value = std::fabs(value);
  int exponent = 0;
  std::frexp(value, &exponent);        // value = [0.5, 1) * 2^exponent
  exponent = std::max(exponent, -13);  // smaller numbers are subnormal, which are evenly spaced
  // The fraction is scaled by 2^11 (it has 10 bits and a leading one); a carry into the exponent
  // comes out right by itself.
  const long fraction = std::lrint(std::ldexp(value, 11 - exponent));
  return static_cast<uint16_t>(sign + (exponent + 13) * 1024 + fraction);
}

uint16_t to_bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void put_random_bytes(std::vector<uint8_t>& out, size_t count, Random& random) {
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(random.bits() >> 56));
}

// Appends a scale with which the block's deviation is between 0.5 and 1.5 times the one asked for.
void put_scale(std::vector<uint8_t>& out, double scale, Random& random) {
  const double sign = random.bits() >> 63 ? -1 : 1;
  put(out, to_half(sign * scale * random.uniform(0.5, 1.5)));
}

// Appends a scale and a minimum of one random factor, which put the mean of the elements near zero.
void put_scale_and_minimum(std::vector<uint8_t>& out, double scale, double minimum,
                           Random& random) {
  const double factor = random.uniform(0.5, 1.5);
  put(out, to_half(scale * factor));
  put(out, to_half(minimum * factor));
}

void put_block(std::vector<uint8_t>& out, uint32_t type, double deviation, Random& random) {
  switch (type) {  // the divisors are the deviations of the random integers
    case kQ4_0:
      put_scale(out, deviation / 4.61, random);
      return put_random_bytes(out, 16, random);
    case kQ4_1:
      put_scale_and_minimum(out, deviation / 4.61, -deviation * 7.5 / 4.61, random);
      return put_random_bytes(out, 16, random);
    case kQ5_0:
      put_scale(out, deviation / 9.23, random);
      return put_random_bytes(out, 20, random);
    case kQ5_1:
      put_scale_and_minimum(out, deviation / 9.23, -deviation * 15.5 / 9.23, random);
      return put_random_bytes(out, 20, random);
    case kQ8_0:
      put_scale(out, deviation / 73.9, random);
      return put_random_bytes(out, 32, random);
    case kQ2_K:  // the mean of scale * bits is 1.5 times that of the minimum
      put_random_bytes(out, 16 + 64, random);
      return put_scale_and_minimum(out, deviation / 14, 1.5 * deviation / 14, random);
    case kQ3_K:
      put_random_bytes(out, 32 + 64 + 12, random);
      return put_scale(out, deviation / 43.3, random);
    case kQ4_K: {  // the mean of scale * nibble is 7.5 times that of the minimum
      const double d = deviation / 255 * random.uniform(0.5, 1.5);
      put(out, to_half(d));
      put(out, to_half(7.5 * d));
      return put_random_bytes(out, 12 + 128, random);
    }
    case kQ5_K:  // the mean of scale * bits is 15.5 times that of the minimum
      put_scale_and_minimum(out, deviation / 520, 15.5 * deviation / 520, random);
      return put_random_bytes(out, 12 + 32 + 128, random);
    case kQ6_K:
      put_random_bytes(out, 128 + 64 + 16, random);
      return put_scale(out, deviation / 1369, random);
    case kIQ4_NL:
      put_scale(out, deviation / 67.4, random);
      return put_random_bytes(out, 16, random);
    case kIQ4_XS:
      put_scale(out, deviation / 1245, random);
      return put_random_bytes(out, 2 + 4 + 128, random);
    case kMXFP4: {  // chooses one of the two powers of two around the deviation
      const int power = static_cast<int>(std::lround(std::log2(deviation / 2.3)));
      out.push_back(static_cast<uint8_t>(127 + power - static_cast<int>(random.bits() >> 63)));
      return put_random_bytes(out, 16, random);
    }
  }
  throw std::runtime_error("no random tensors of type " + std::to_string(type));
}

}  // namespace

const std::vector<NamedType>& tensor_types() {
  static const std::vector<NamedType> types = {
      {"F32", kF32},   {"F16", kF16},       {"BF16", kBF16},     {"Q8_0", kQ8_0},
      {"Q5_0", kQ5_0}, {"Q4_0", kQ4_0},     {"Q6_K", kQ6_K},     {"Q4_K", kQ4_K},
      {"Q4_1", kQ4_1}, {"Q5_1", kQ5_1},     {"Q2_K", kQ2_K},     {"Q3_K", kQ3_K},
      {"Q5_K", kQ5_K}, {"IQ4_NL", kIQ4_NL}, {"IQ4_XS", kIQ4_XS}, {"MXFP4", kMXFP4}};
  return types;
}

bool is_common(uint32_t type) {
  const auto& types = tensor_types();
  return std::any_of(types.begin(), types.begin() + 8,
                     [&](const NamedType& common) { return common.type == type; });
}

Random::Random(uint64_t seed, const std::string& name) : state_(seed) {
  for (unsigned char letter : name) state_ = (state_ ^ letter) * 0x100000001b3;
}

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
}

std::vector<uint8_t> random_tensor(uint32_t type, size_t n_elements, double deviation,
                                   Random& random) {
  std::vector<uint8_t> out;
  if (type == kF32 || type == kF16 || type == kBF16) {
    const double limit = deviation * 1.7320508075688772;
    for (size_t i = 0; i < n_elements; ++i) {
      const double value = random.uniform(-limit, limit);
      if (type == kF32) put(out, static_cast<float>(value));
      if (type == kF16) put(out, to_half(value));
      if (type == kBF16) put(out, to_bfloat(static_cast<float>(value)));
    }
    return out;
  }
  const bool is_long = type == kQ2_K || type == kQ3_K || type == kQ4_K || type == kQ5_K ||
                       type == kQ6_K || type == kIQ4_XS;
  const size_t block_length = is_long ? 256 : 32;
  if (n_elements % block_length != 0) throw std::runtime_error("a row ends inside a block");
  for (size_t i = 0; i < n_elements; i += block_length) put_block(out, type, deviation, random);
  return out;
}

std::vector<uint8_t> random_floats(size_t n_elements, double low, double high, Random& random) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < n_elements; ++i) put(out, static_cast<float>(random.uniform(low, high)));
  return out;
}

}  // namespace troika::test_support
