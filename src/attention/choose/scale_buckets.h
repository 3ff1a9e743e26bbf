// Prebuilt graphs of the estimate for units whose graphs have fixed scales (S4): one for the mean
// scales of a head's queries and keys on a calibration text, and others for scales one step around
// them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace troika::attention {

// The scales of queries and of keys. A level is a value divided by its scale, as int8.
struct ScalePair {
  float q = 1.0f;  // lambda^Q
  float k = 1.0f;  // lambda^K
};

inline constexpr size_t kScaleBuckets = 9;
inline constexpr float kMostLevel = 127.0f;  // larger values are clipped to it
inline constexpr float kScaleRatio = 0.5f;   // the factor between neighbouring scales: sigma

// Returns the pairs whose scales are lambda^Q and lambda^K, each times sigma, 1 or 1 / sigma; the
// mean pair stands first.
std::array<ScalePair, kScaleBuckets> scale_buckets(ScalePair mean, float sigma = kScaleRatio);
// Returns n of these pairs: all nine, five that differ from the mean in one scale at most, or the
// mean alone. The mean stands first. REQUIRES: n is 9, 5 or 1.
std::vector<ScalePair> buckets_around(ScalePair mean, int n);
// Returns the bucket with the smallest mean square error, the first of equals. REQUIRES: there is a
// bucket.
size_t nearest_bucket(std::span<const ScalePair> buckets, ScalePair scales);

}  // namespace troika::attention
