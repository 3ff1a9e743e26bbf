// Seeded random tensors in every element type: the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/reference/decode.h"

namespace troika::test_support {

// Element types by their number in GGUF, as the reference has them.
using TensorType = reference::Type;
using enum reference::Type;

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
