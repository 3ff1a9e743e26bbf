#include "attention/choose/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace troika::attention {
namespace {

// Returns a whole number that orders like the float. What is not a number is the least.
uint32_t key_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 is 0
  if (std::isnan(value)) return 0;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Returns the k-th largest key. It finds a few bits at a time: of the keys that begin with the bits
// found so far, it counts how many have each value of the next bits.
uint32_t kth_largest(std::span<const float> values, size_t k) {
  constexpr int kBits[] = {11, 11, 10};
  uint32_t known = 0;
  int shift = 32;
  for (const int n_bits : kBits) {
    const uint32_t before = shift == 32 ? 0 : ~uint32_t{0} << shift;
    shift -= n_bits;
    const uint32_t mask = (uint32_t{1} << n_bits) - 1;
    std::array<uint32_t, size_t{1} << kBits[0]> counts{};
    for (const float value : values) {
      const uint32_t key = key_of(value);
      if ((key & before) == known) ++counts[key >> shift & mask];
    }
    uint32_t next = mask;
    while (counts[next] < k) k -= counts[next--];
    known |= next << shift;
  }
  return known;
}

}  // namespace

size_t count_of_share(double share, size_t n) {
  // A plan keeps shares of heads as floats, so a share may be too large by rounding; this must not
  // add a position.
  constexpr double kRounding = 1e-3;
  const double wanted = std::ceil(std::max(0.0, share * static_cast<double>(n) - kRounding));
  return n == 0 ? 0 : std::clamp<size_t>(static_cast<size_t>(wanted), 1, n);
}

void select_largest(std::span<const float> values, size_t k, uint32_t* out) {
  TROIKA_ASSERT(k <= values.size());
  if (k == 0) return;
  const uint32_t least = kth_largest(values, k);
  // How many of the values equal to the least one are taken, where more values reach it than k.
  size_t n_equal = k;
  for (const float value : values) n_equal -= key_of(value) > least ? 1 : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t key = key_of(values[i]);
    if (key < least || (key == least && n_equal == 0)) continue;
    if (key == least) --n_equal;
    *out++ = static_cast<uint32_t>(i);
  }
}

}  // namespace troika::attention
