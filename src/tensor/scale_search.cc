#include "tensor/scale_search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace troika::tensor {
namespace {

// Returns what nearest_level does, as a float. Above 2^23 a float has no fraction left, so adding
// such a number rounds to the nearest, ties to even. (std::nearbyint is a slow call on the oldest
// machines that this is compiled for.)
inline float rounded_level(float x, float inverse_scale, float low, float high) {
  constexpr float kNoFraction = 0x1.8p23f;
  const float inside = std::clamp(x * inverse_scale, low, high);
  return (inside + kNoFraction) - kNoFraction;
}

// Sums run in kElements parts side by side, so that a compiler can use vector registers for them.
constexpr size_t kElements = 8;
using Elements = std::array<float, kElements>;

float total(const Elements& elements) {
  float sum = 0;
  for (const float element : elements) sum += element;
  return sum;
}

// Calls add(i, element) for each i < n.
template <typename Add>
inline void in_elements(size_t n, Add add) {
  const size_t n_full = n / kElements * kElements;
  for (size_t first = 0; first < n_full; first += kElements) {
    for (size_t element = 0; element < kElements; ++element) add(first + element, element);
  }
  for (size_t i = n_full; i < n; ++i) add(i, i - n_full);
}

// The sums from which the least-squares scale of given levels follows.
struct SymmetricFit {
  float xq = 0;
  float qq = 0;

  SymmetricFit(const float* x, size_t n, float inverse, int low, int high) {
    const auto lowest = static_cast<float>(low);
    const auto highest = static_cast<float>(high);
    Elements sum_xq{};
    Elements sum_qq{};
    in_elements(n, [&](size_t i, size_t element) {
      const float q = rounded_level(x[i], inverse, lowest, highest);
      sum_xq[element] += x[i] * q;
      sum_qq[element] += q * q;
    });
    xq = total(sum_xq);
    qq = total(sum_qq);
  }
  float scale() const { return qq > 0 ? xq / qq : 0; }
  // Returns how much of sum x^2 the levels explain: the error is the rest.
  float gain() const { return qq > 0 ? xq * xq / qq : 0; }
};

// Returns the best s and m for the levels that `from` gives.
ScaleAndMin refit(const float* x, size_t n, int high, MinSign sign, ScaleAndMin from) {
  const float inverse = inverse_or_zero(from.scale);
  const auto highest = static_cast<float>(high);
  Elements q_sums{}, qq_sums{}, x_sums{}, xq_sums{};
  in_elements(n, [&](size_t i, size_t element) {
    const float q = rounded_level(x[i] + from.min, inverse, 0, highest);
    q_sums[element] += q;
    qq_sums[element] += q * q;
    x_sums[element] += x[i];
    xq_sums[element] += x[i] * q;
  });
  const float sum_q = total(q_sums), sum_qq = total(qq_sums);
  const float sum_x = total(x_sums), sum_xq = total(xq_sums);
  const auto count = static_cast<float>(n);
  const float determinant = count * sum_qq - sum_q * sum_q;
  if (determinant <= 0) return from;
  ScaleAndMin fit{(count * sum_xq - sum_x * sum_q) / determinant,
                  (sum_q * sum_xq - sum_qq * sum_x) / determinant};
  if (fit.min < 0 && sign == MinSign::kNotNegative) fit = {sum_xq / sum_qq, 0};
  return fit.scale > 0 ? fit : from;
}

}  // namespace

void copy_encodable(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    y[i] = std::isnan(x[i]) ? 0 : std::clamp(x[i], -kMostEncodable, kMostEncodable);
  }
}

int nearest_level(float x, float inverse_scale, int low, int high) {
  // The value is clamped before the conversion: a float outside the range of int must not be
  // converted.
  return static_cast<int>(
      rounded_level(x, inverse_scale, static_cast<float>(low), static_cast<float>(high)));
}

float inverse_or_zero(float scale) {
  const float inverse = 1.0f / scale;
  return scale != 0 && std::isfinite(inverse) ? inverse : 0;
}

float symmetric_scale(const float* x, size_t n, int low, int high) {
  float extreme = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (inverse_or_zero(extreme) == 0) return 0;
  float best_scale = extreme / static_cast<float>(low);
  float best_gain = -1;
  // The value of largest magnitude takes about the level `low`. A little less clips it, a little
  // more leaves room. Each step moves it by a tenth of a level.
  constexpr int kSteps = 9;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = (static_cast<float>(low) + 0.1f * static_cast<float>(step)) / extreme;
    const SymmetricFit fit(x, n, inverse, low, high);
    if (fit.gain() > best_gain) {
      best_gain = fit.gain();
      best_scale = fit.scale();
    }
  }
  // The fitted scale may move some levels, which allows a better fit.
  const SymmetricFit again(x, n, inverse_or_zero(best_scale), low, high);
  return again.gain() > best_gain ? again.scale() : best_scale;
}

float affine_error(const float* x, size_t n, int high, ScaleAndMin fit) {
  const float inverse = inverse_or_zero(fit.scale);
  const auto highest = static_cast<float>(high);
  Elements error{};
  in_elements(n, [&](size_t i, size_t element) {
    const float q = rounded_level(x[i] + fit.min, inverse, 0, highest);
    const float difference = x[i] - (fit.scale * q - fit.min);
    error[element] += difference * difference;
  });
  return total(error);
}

ScaleAndMin scale_and_min(const float* x, size_t n, int high, MinSign sign) {
  const auto [low_it, high_it] = std::minmax_element(x, x + n);
  const float low = sign == MinSign::kAny ? *low_it : std::min(*low_it, 0.0f);
  const float range = *high_it - low;
  if (range <= 0) return {0, -low};
  ScaleAndMin best{range / static_cast<float>(high), -low};
  float best_error = affine_error(x, n, high, best);
  // The ranges tried go from a little wider than the values to two levels narrower, which clips the
  // extremes.
  for (int step = -4; step <= 20; step += 3) {
    const float levels = static_cast<float>(high) + 0.1f * static_cast<float>(step);
    const ScaleAndMin fit = refit(x, n, high, sign, {range / levels, -low});
    const float error = affine_error(x, n, high, fit);
    if (error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  // The fitted values may move some levels, which allows a better fit.
  const ScaleAndMin again = refit(x, n, high, sign, best);
  if (affine_error(x, n, high, again) < best_error) best = again;
  return best;
}

}  // namespace troika::tensor
