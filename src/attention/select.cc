#include "attention/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace troika::attention {
namespace {

// Whole numbers in the order of the floats.
int32_t key_of(float value) {
  const auto bits = std::bit_cast<int32_t>(value + 0.0f);  // -0 is 0
  if (std::isnan(value)) return std::numeric_limits<int32_t>::min();
  return bits ^ ((bits >> 31) & std::numeric_limits<int32_t>::max());
}

size_t count_from(std::span<const float> values, int32_t least) {
  size_t n = 0;
  for (const float value : values) n += key_of(value) >= least ? 1 : 0;
  return n;
}

// The k-th largest value's key, by halving. It is the largest key that k values reach.
int32_t key_of_kth(std::span<const float> values, size_t k) {
  int64_t low = std::numeric_limits<int32_t>::min();
  int64_t high = int64_t{std::numeric_limits<int32_t>::max()} + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const size_t n = count_from(values, static_cast<int32_t>(middle));
    (n >= k ? low : high) = middle;
    if (n == k) break;
  }
  return static_cast<int32_t>(low);
}

}  // namespace

size_t count_of_share(double share, size_t n) {
  const double wanted = std::ceil(share * static_cast<double>(n));
  return n == 0 ? 0 : std::clamp<size_t>(static_cast<size_t>(wanted), 1, n);
}

void select_largest(std::span<const float> values, size_t k, uint32_t* out) {
  TROIKA_ASSERT(k <= values.size());
  if (k == 0) return;
  const int32_t least = key_of_kth(values, k);
  const size_t n_above =
      least == std::numeric_limits<int32_t>::max() ? 0 : count_from(values, least + 1);
  size_t n_equal = k - n_above;  // of those that equal the least one, where more reach it than k
  for (size_t i = 0; i < values.size(); ++i) {
    const int32_t key = key_of(values[i]);
    if (key < least || (key == least && n_equal == 0)) continue;
    if (key == least) --n_equal;
    *out++ = static_cast<uint32_t>(i);
  }
}

size_t select_above(std::span<const float> values, float least, uint32_t* out) {
  size_t n = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > least) out[n++] = static_cast<uint32_t>(i);
  }
  return n;
}

}  // namespace troika::attention
