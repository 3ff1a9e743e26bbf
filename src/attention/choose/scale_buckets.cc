#include "attention/choose/scale_buckets.h"

#include <algorithm>

#include "base/error.h"

namespace troika::attention {
std::array<ScalePair, kScaleBuckets> scale_buckets(ScalePair mean, float sigma) {
  const float factors[] = {1.0f, sigma, 1.0f / sigma};
  std::array<ScalePair, kScaleBuckets> buckets;
  size_t n = 0;
  for (const float of_q : factors) {
    for (const float of_k : factors) buckets[n++] = {mean.q * of_q, mean.k * of_k};
  }
  return buckets;
}

std::vector<ScalePair> buckets_around(ScalePair mean, int n) {
  TROIKA_ASSERT(n == 1 || n == 5 || n == 9);
  std::vector<ScalePair> buckets;
  for (const ScalePair& bucket : scale_buckets(mean)) {
    const bool is_of_five = bucket.q == mean.q || bucket.k == mean.k;
    if (n == 9 || (n == 5 && is_of_five) || buckets.empty()) buckets.push_back(bucket);
  }
  return buckets;
}

size_t nearest_bucket(std::span<const ScalePair> buckets, ScalePair scales) {
  TROIKA_ASSERT(!buckets.empty());
  const auto error = [&](const ScalePair& bucket) {
    const double q = double{bucket.q} - scales.q, k = double{bucket.k} - scales.k;
    return (q * q + k * k) / 2;
  };
  const auto nearest =
      std::min_element(buckets.begin(), buckets.end(),
                       [&](const ScalePair& a, const ScalePair& b) { return error(a) < error(b); });
  return static_cast<size_t>(nearest - buckets.begin());
}

}  // namespace troika::attention
