#include "tune/input_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "model/linear_inputs.h"

namespace troika::tune {
namespace {

// There are 32 classes for each power of two.
constexpr int kShift = 18;
// Counts the classes of finite magnitudes.
constexpr size_t kClasses = size_t{0x7f800000} >> kShift;

size_t class_of(float magnitude) { return std::bit_cast<uint32_t>(magnitude) >> kShift; }
float upper_edge(size_t index) {
  const auto next = static_cast<uint32_t>(std::min(index + 1, kClasses - 1)) << kShift;
  return std::bit_cast<float>(next);
}
double middle(size_t index) {
  return 0.5 * (std::bit_cast<float>(static_cast<uint32_t>(index) << kShift) + upper_edge(index));
}

}  // namespace

InputStatistics::InputStatistics(const model::Blueprint& blueprint)
    : by_weight_(blueprint.weights.size(), -1) {
  for (const model::LinearInput& input : model::linear_inputs(blueprint)) {
    by_weight_[static_cast<size_t>(input.weights.front())] = static_cast<int>(inputs_.size());
    inputs_.emplace_back();
    inputs_.back().histogram.resize(kClasses);
    inputs_.back().channel_largest.resize(static_cast<size_t>(input.width));
    inputs_.back().channel_outliers.resize(static_cast<size_t>(input.width));
  }
}

void InputStatistics::observe(const model::Op& op, const float* x, int n_rows, int width) {
  const int index = by_weight_[static_cast<size_t>(op.weight)];
  if (index < 0) return;
  Input& input = inputs_[static_cast<size_t>(index)];
  const auto n = static_cast<size_t>(width);
  for (size_t row = 0; row < static_cast<size_t>(n_rows); ++row, x += n) {
    if (!limits_.empty()) {
      const float limit = limits_[static_cast<size_t>(index)];
      for (size_t c = 0; c < n; ++c) input.channel_outliers[c] += std::fabs(x[c]) > limit;
      continue;
    }
    for (size_t c = 0; c < n; ++c) {
      const float magnitude = std::fabs(x[c]);
      if (!std::isfinite(magnitude)) continue;
      ++input.histogram[class_of(magnitude)];
      input.channel_largest[c] = std::max(input.channel_largest[c], magnitude);
    }
  }
  if (limits_.empty()) {
    input.n_values += n * static_cast<uint64_t>(n_rows);
  } else {
    input.n_counted_rows += static_cast<uint64_t>(n_rows);
  }
}

void InputStatistics::count_outliers(std::vector<float> limits) { limits_ = std::move(limits); }

float InputStatistics::largest(size_t input) const {
  const std::vector<float>& all = inputs_[input].channel_largest;
  return all.empty() ? 0.0f : *std::max_element(all.begin(), all.end());
}

const std::vector<float>& InputStatistics::channel_largest(size_t input) const {
  return inputs_[input].channel_largest;
}

float InputStatistics::quantile(size_t input, double share) const {
  const Input& in = inputs_[input];
  const double wanted = share * static_cast<double>(in.n_values);
  double n_within = 0;
  for (size_t i = 0; i < kClasses; ++i) {
    n_within += static_cast<double>(in.histogram[i]);
    if (n_within < wanted || in.histogram[i] == 0) continue;
    return i == 0 ? 0.0f : std::min(upper_edge(i), largest(input));
  }
  return largest(input);
}

float InputStatistics::best_clamp(size_t input) const {
  const Input& in = inputs_[input];
  // Limits down to a 4096th of the largest magnitude are tried.
  constexpr size_t kClassesTried = 12 * 32;
  const float most = largest(input);
  if (most == 0.0f) return 0.0f;
  const size_t last = class_of(most);
  const size_t first = last > kClassesTried ? last - kClassesTried : 0;
  float best = most;
  double least = INFINITY;
  for (size_t clamp = last + 1; clamp-- > first;) {
    const double limit = clamp == last ? most : upper_edge(clamp);
    const double rounding = limit * limit / (127.0 * 127.0 * 12.0);
    double error = 0;
    for (size_t i = 0; i <= last; ++i) {
      if (in.histogram[i] == 0) continue;
      const double value = middle(i);
      const double lost =
          value > limit ? (value - limit) * (value - limit) : std::min(rounding, value * value);
      error += static_cast<double>(in.histogram[i]) * lost;
    }
    if (error >= least) continue;
    least = error;
    best = static_cast<float>(limit);
  }
  return best;
}

double InputStatistics::outliers_per_token(size_t input) const {
  const Input& in = inputs_[input];
  const uint64_t n =
      std::accumulate(in.channel_outliers.begin(), in.channel_outliers.end(), uint64_t{0});
  return in.n_counted_rows > 0 ? static_cast<double>(n) / static_cast<double>(in.n_counted_rows)
                               : 0.0;
}

int InputStatistics::n_outlier_channels(size_t input) const {
  const std::vector<uint64_t>& counts = inputs_[input].channel_outliers;
  return static_cast<int>(
      std::count_if(counts.begin(), counts.end(), [](uint64_t n) { return n > 0; }));
}

std::vector<int> InputStatistics::hot_channels(size_t input, double share) const {
  const std::vector<uint64_t>& counts = inputs_[input].channel_outliers;
  std::vector<int> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  const double wanted =
      share * static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  double n = 0;
  size_t n_hot = 0;
  while (n_hot < order.size() && n < wanted) {
    n += static_cast<double>(counts[static_cast<size_t>(order[n_hot++])]);
  }
  order.resize(n_hot);
  return order;
}

}  // namespace troika::tune
