#include "tensor/codebook.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/scale_search.h"

namespace troika::tensor {
namespace {

constexpr size_t kBlock = 32;

// Lists the borders at which one level ends and the next begins.
constexpr std::array<float, 15> kUnevenBorders = [] {
  std::array<float, 15> borders{};
  for (size_t i = 0; i < borders.size(); ++i) {
    borders[i] = 0.5f * static_cast<float>(kUnevenLevels[i] + kUnevenLevels[i + 1]);
  }
  return borders;
}();
constexpr std::array<float, 7> kTinyBorders = [] {
  std::array<float, 7> borders{};
  for (size_t i = 0; i < borders.size(); ++i) {
    borders[i] = 0.5f * static_cast<float>(kTinyFloats[i] + kTinyFloats[i + 1]);
  }
  return borders;
}();

// Counts the borders that lie below each value.
template <size_t kBorders>
void count_below(const float* x, const std::array<float, kBorders>& borders, uint8_t* codes) {
  int32_t counts[kBlock] = {};
  for (const float border : borders) {
    for (size_t j = 0; j < kBlock; ++j) counts[j] += x[j] > border;
  }
  for (size_t j = 0; j < kBlock; ++j) codes[j] = static_cast<uint8_t>(counts[j]);
}

float error_of(const float* x, float scale, const int8_t* codebook, const uint8_t* codes) {
  float error = 0;
  for (size_t j = 0; j < kBlock; ++j) {
    const float difference = x[j] - scale * codebook[codes[j]];
    error += difference * difference;
  }
  return error;
}

// The least-squares scale of given levels, and how much of sum x^2 it explains.
struct Fit {
  float scale = 0, gain = 0;
};
Fit fit_uneven(const float* x, float inverse_scale) {
  uint8_t codes[kBlock];
  nearest_uneven(x, inverse_scale, codes);
  float xq = 0, qq = 0;
  for (size_t j = 0; j < kBlock; ++j) {
    const auto q = static_cast<float>(kUnevenLevels[codes[j]]);
    xq += x[j] * q;
    qq += q * q;
  }
  return {xq / qq, xq * xq / qq};  // no level is 0
}

}  // namespace

void nearest_uneven(const float* x, float inverse_scale, uint8_t* codes) {
  float levels[kBlock];
  for (size_t j = 0; j < kBlock; ++j) levels[j] = x[j] * inverse_scale;
  count_below(levels, kUnevenBorders, codes);
}

float uneven_error(const float* x, float scale) {
  uint8_t codes[kBlock];
  nearest_uneven(x, inverse_or_zero(scale), codes);
  return error_of(x, scale, kUnevenLevels, codes);
}

float uneven_scale(const float* x) {
  float extreme = 0;
  for (size_t j = 0; j < kBlock; ++j) {
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  if (inverse_or_zero(extreme) == 0) return 0;
  Fit best;
  // The value of largest magnitude takes about the lowest level or the highest.
  for (const int level : {-127, 113}) {
    for (int step = -7; step <= 7; ++step) {
      const Fit fit =
          fit_uneven(x, (static_cast<float>(level) + 2.0f * static_cast<float>(step)) / extreme);
      if (fit.gain > best.gain) best = fit;
    }
  }
  // The fitted scale may move some levels, which allows a better fit.
  const Fit again = fit_uneven(x, inverse_or_zero(best.scale));
  return again.gain > best.gain ? again.scale : best.scale;
}

void nearest_tiny_floats(const float* x, float inverse_scale, uint8_t* codes) {
  float magnitudes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) magnitudes[j] = std::fabs(x[j] * inverse_scale);
  count_below(magnitudes, kTinyBorders, codes);
  for (size_t j = 0; j < kBlock; ++j) {
    if (std::signbit(x[j]) && codes[j] != 0) codes[j] = static_cast<uint8_t>(codes[j] + 8);
  }
}

float tiny_float_error(const float* x, float scale) {
  uint8_t codes[kBlock];
  nearest_tiny_floats(x, inverse_or_zero(scale), codes);
  return error_of(x, scale, kTinyFloats, codes);
}

}  // namespace troika::tensor
