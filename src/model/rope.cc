#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace troika::model {
namespace {

// Returns the index of the pair that turns `n_turns` times within the original context (yarn).
double pair_of_turns(const Rope& rope, double n_turns) {
  return rope.n_dims * std::log(rope.original_context / (n_turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.base));
}

// Returns 1 for fast pairs, which keep their frequency, and 0 for slow ones, which are stretched
// (yarn).
double share_kept(const Rope& rope, int pair) {
  const double first = std::max(0.0, std::floor(pair_of_turns(rope, rope.yarn_beta_fast)));
  const double last =
      std::min(rope.n_dims - 1.0, std::ceil(pair_of_turns(rope, rope.yarn_beta_slow)));
  const double along = (pair - first) / std::max(0.001, last - first);
  return 1.0 - std::clamp(along, 0.0, 1.0);
}

}  // namespace

RopeAngles::RopeAngles(std::span<const Rope> ropes, int context) {
  for (const Rope& rope : ropes) {
    const int n_pairs = rope.n_dims / 2;
    const bool is_long = !rope.long_divisors.empty() && context > rope.original_context;
    const std::vector<float>& divisors = is_long ? rope.long_divisors : rope.frequency_divisors;
    TROIKA_ASSERT(divisors.empty() || divisors.size() == static_cast<size_t>(n_pairs));
    double magnitude = rope.attention_factor;
    if (rope.scaling == RopeScaling::kYarn && rope.factor > 1.0 && rope.yarn_ext_factor != 0.0) {
      magnitude *= 1.0 + 0.1 * std::log(rope.factor);
    }
    for (int pair = 0; pair < n_pairs; ++pair) {
      double frequency = std::pow(rope.base, -2.0 * pair / rope.n_dims);
      if (!divisors.empty()) frequency /= divisors[static_cast<size_t>(pair)];
      if (rope.scaling == RopeScaling::kLinear) frequency /= rope.factor;
      if (rope.scaling == RopeScaling::kYarn) {
        const double kept = share_kept(rope, pair) * rope.yarn_ext_factor;
        frequency = frequency / rope.factor * (1.0 - kept) + frequency * kept;
      }
      pairs_.push_back({frequency, magnitude});
    }
  }
}

void RopeAngles::fill(int position, float* cos, float* sin) const {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const double angle = position * pairs_[i].frequency;
    cos[i] = static_cast<float>(std::cos(angle) * pairs_[i].magnitude);
    sin[i] = static_cast<float>(std::sin(angle) * pairs_[i].magnitude);
  }
}

int first_pair_of(std::span<const Rope> ropes, int index) {
  int n = 0;
  for (int i = 0; i < index; ++i) n += ropes[static_cast<size_t>(i)].n_dims / 2;
  return n;
}

}  // namespace troika::model
