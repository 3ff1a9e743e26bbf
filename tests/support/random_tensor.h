// Seeded random tensors in every element type: the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troika::test_support {

// Element types by their number in GGUF.
enum TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct NamedType {
  const char* name;
  TensorType type;
};
// Returns all types, plain and common ones first.
const std::vector<NamedType>& tensor_types();
// Whether tests of many things use it: the first eight.
bool is_common(uint32_t type);

// A generator (splitmix64) whose numbers depend on the seed and the name only.
class Random {
 public:
  Random(uint64_t seed, const std::string& name);
  uint64_t bits();
  double uniform(double low, double high);

 private:
  uint64_t state_;
};

// Values around zero with about the given standard deviation. Block formats get random integers and
// scales, not rounded values, so that every bit of a block takes part. Throws std::runtime_error
// where n_elements is no multiple of the block length.
std::vector<uint8_t> random_tensor(uint32_t type, size_t n_elements, double deviation,
                                   Random& random);

// F32 values between low and high.
std::vector<uint8_t> random_floats(size_t n_elements, double low, double high, Random& random);

}  // namespace troika::test_support
