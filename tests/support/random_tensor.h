// Makes seeded random tensors of every element type, with the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/reference/decode.h"

namespace troika::test_support {

// These are the element types by their number in GGUF, as the reference has them.
using TensorType = reference::Type;
using enum reference::Type;

struct NamedType {
  const char* name;
  TensorType type;
};
// Returns all types; the plain and common ones come first.
const std::vector<NamedType>& tensor_types();
// Says whether a type is one of the first eight, which more tests use than the others.
bool is_common(uint32_t type);

// A generator (splitmix64) whose numbers depend only on the seed and the name.
class Random {
 public:
  Random(uint64_t seed, const std::string& name);
  uint64_t bits();
  double uniform(double low, double high);

 private:
  uint64_t state_;
};

// Returns encoded values around zero with about the given standard deviation. Block formats get
// random integers and scales instead of rounded values, so that every bit of a block takes part.
// Throws std::runtime_error where n_elements is no multiple of the block length.
std::vector<uint8_t> random_tensor(uint32_t type, size_t n_elements, double deviation,
                                   Random& random);

// Returns F32 values between low and high.
std::vector<uint8_t> random_floats(size_t n_elements, double low, double high, Random& random);

}  // namespace troika::test_support
