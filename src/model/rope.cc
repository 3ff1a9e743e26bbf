#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace troika::model {
namespace {

// The pair index at which a wave turns `n_turns` times within the original context (yarn).
double pair_of_turns(const Rope& rope, double n_turns) {
  return rope.n_dims * std::log(rope.original_context / (n_turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.base));
}

// 1 for fast pairs, which keep their frequency, 0 for slow ones, which are stretched (yarn).
double share_kept(const Rope& rope, int pair) {
  const double first = std::max(0.0, std::floor(pair_of_turns(rope, rope.yarn_beta_fast)));
  const double last =
      std::min(rope.n_dims - 1.0, std::ceil(pair_of_turns(rope, rope.yarn_beta_slow)));
  const double along = (pair - first) / std::max(0.001, last - first);
  return 1.0 - std::clamp(along, 0.0, 1.0);
}

}  // namespace

RopeAngles::RopeAngles(const Rope& rope) {
  const int n_pairs = rope.n_dims / 2;
  TROIKA_ASSERT(rope.frequency_divisors.empty() ||
                rope.frequency_divisors.size() == static_cast<size_t>(n_pairs));
  for (int pair = 0; pair < n_pairs; ++pair) {
    double frequency = std::pow(rope.base, -2.0 * pair / rope.n_dims);
    if (!rope.frequency_divisors.empty()) {
      frequency /= rope.frequency_divisors[static_cast<size_t>(pair)];
    }
    if (rope.scaling == RopeScaling::kLinear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::kYarn) {
      const double kept = share_kept(rope, pair) * rope.yarn_ext_factor;
      frequency = frequency / rope.factor * (1.0 - kept) + frequency * kept;
    }
    frequencies_.push_back(frequency);
  }
  if (rope.scaling == RopeScaling::kYarn) {
    magnitude_ = rope.attention_factor;
    if (rope.factor > 1.0) magnitude_ *= 1.0 + 0.1 * std::log(rope.factor);
  }
}

void RopeAngles::fill(int position, float* cos, float* sin) const {
  for (size_t pair = 0; pair < frequencies_.size(); ++pair) {
    const double angle = position * frequencies_[pair];
    cos[pair] = static_cast<float>(std::cos(angle) * magnitude_);
    sin[pair] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace troika::model
