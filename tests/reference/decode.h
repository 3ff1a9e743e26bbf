// The reference's own decoders of element types. The value of an element is the exact product of
// its scales and its integer, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troika::reference {

// These are the element types by their number in GGUF.
enum Type : uint32_t {
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

double decode_half(uint16_t bits);

// Returns how many bytes n_elements take. Throws for an unknown type or where they fill no whole
// blocks.
size_t encoded_bytes(uint32_t type, size_t n_elements);
std::vector<double> decode(uint32_t type, const uint8_t* bytes, size_t n_elements);

}  // namespace troika::reference
