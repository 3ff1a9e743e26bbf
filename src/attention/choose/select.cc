#include "attention/choose/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace troika::attention {
namespace {

// Returns a whole number that orders like the float, which is a number.
uint32_t key_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

float of_key(uint32_t key) {
  return std::bit_cast<float>((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

size_t count_odd(std::span<const float> values) {
  return static_cast<size_t>(
      std::count_if(values.begin(), values.end(), [](float value) { return std::isnan(value); }));
}

// Looks for a limit that some of the values are above.
class LimitSearch {
 public:
  LimitSearch(const kernels::Table& table, std::span<const float> values)
      : table_(table), values_(values) {
    const float largest = kernels::find(table.largest_of_row, tensor::Type::kF32)(
        reinterpret_cast<const std::byte*>(values.data()), values.size());
    is_finite_ = std::isfinite(largest);
    const float bound = is_finite_ ? largest : std::numeric_limits<float>::infinity();
    low_ = {-bound, count_above(-bound)};
    high_ = {bound, 0};
  }

  struct Limit {
    float value;
    size_t n_above;
  };
  // Says whether all values are finite numbers.
  bool is_finite() const { return is_finite_; }
  // Returns a limit that k values are above, or fewer, if there are k with some that are equal to
  // it. REQUIRES: at least k values are numbers.
  Limit find(size_t k) {
    k_ = k;
    if (low_.n_above <= k_) return low_;
    if (is_finite_ && values_.size() >= kLeastSampled) begin_with_sample();
    for (int step = 0; high_.n_above < k_; ++step) {
      const uint32_t first = key_of(low_.value), last = key_of(high_.value);
      if (last - first <= 1) break;
      uint32_t key = first + (last - first) / 2;
      if (is_finite_ && step < kValueSteps) {
        key = std::clamp(key_of(between(step % 2 == 0)), first + 1, last - 1);
      }
      narrow(of_key(key));
    }
    return high_;
  }

 private:
  static constexpr size_t kSampled = 32, kLeastSampled = 256;
  // Counts the steps by value. Values of very different sizes need more, and get them by key, which
  // ends after 32.
  static constexpr int kValueSteps = 16;

  size_t count_above(float limit) const {
    return table_.count_above(values_.data(), values_.size(), limit);
  }

  // Scores lie close to a normal distribution, so that a limit in proportion to the counts comes
  // near; the middle helps where it does not.
  float between(bool in_proportion) const {
    const auto range = static_cast<float>(low_.n_above - high_.n_above);
    const float part = in_proportion ? static_cast<float>(low_.n_above - k_) / range : 0.5f;
    return low_.value * (1.0f - part) + high_.value * part;
  }

  void narrow(float value) {
    const Limit limit = {value, count_above(value)};
    (limit.n_above > k_ ? low_ : high_) = limit;
  }

  // The limit is probably between two values of a sample, one and a half deviations to both sides.
  void begin_with_sample() {
    std::array<float, kSampled> sample;
    const size_t stride = values_.size() / kSampled;
    for (size_t i = 0; i < kSampled; ++i) sample[i] = values_[i * stride + stride / 2];
    std::sort(sample.begin(), sample.end(), std::greater<>());
    const double part = static_cast<double>(k_) / static_cast<double>(values_.size());
    const double place = kSampled * part;
    const double deviation = std::sqrt(place * (1.0 - part));
    const double above = std::floor(place - 1.5 * deviation - 1.0);
    const double below = std::ceil(place + 1.5 * deviation + 1.0);
    for (const double i : {above, below}) {
      if (i < 0.0 || i >= kSampled) continue;
      const float value = sample[static_cast<size_t>(i)];
      if (value > low_.value && value < high_.value) narrow(value);
    }
  }

  const kernels::Table& table_;
  std::span<const float> values_;
  size_t k_ = 0;
  bool is_finite_;
  Limit low_, high_;  // more than k values are above the first, at most k above the second
};

}  // namespace

size_t count_of_share(double share, size_t n) {
  // A plan keeps shares of heads as floats, so a share may be too large by rounding; this must not
  // add a position.
  constexpr double kRounding = 1e-3;
  const double wanted = std::ceil(std::max(0.0, share * static_cast<double>(n) - kRounding));
  return n == 0 ? 0 : std::clamp<size_t>(static_cast<size_t>(wanted), 1, n);
}

void select_largest(const kernels::Table& table, std::span<const float> values, size_t k,
                    uint32_t* out) {
  TROIKA_ASSERT(k <= values.size());
  if (k == 0) return;
  LimitSearch search(table, values);
  size_t n_odd = search.is_finite() ? 0 : std::min(k, count_odd(values));
  const LimitSearch::Limit limit = search.find(k - n_odd);
  if (n_odd == 0 && limit.n_above == k) {
    table.find_above(values.data(), values.size(), limit.value, out);
    return;
  }
  size_t n_equal = k - n_odd - limit.n_above;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      if (n_odd == 0) continue;
      --n_odd;
    } else if (values[i] == limit.value) {
      if (n_equal == 0) continue;
      --n_equal;
    } else if (values[i] < limit.value) {
      continue;
    }
    *out++ = static_cast<uint32_t>(i);
  }
}

}  // namespace troika::attention
