#include "draft/odds.h"

#include <algorithm>

#include "base/error.h"

namespace troika::draft {
namespace {

// The source's own estimate weighs as much as this number of guesses whose outcome is known.
constexpr float kPrior = 2.0f;
// Each guess of a bin keeps this share of what was counted before, because texts change.
constexpr float kKept = 0.98f;

}  // namespace

size_t Odds::bin_of(float chance) {
  TROIKA_ASSERT(chance == chance);  // what is no number has no bin
  return static_cast<size_t>(std::clamp(chance * kBins, 0.0f, kBins - 1.0f));
}

float Odds::corrected(int source, float chance) const {
  const Bin& bin = sources_[static_cast<size_t>(source)][bin_of(chance)];
  return (bin.n_right + kPrior * chance) / (bin.n_tried + kPrior);
}

void Odds::learn(int source, float chance, bool is_right) {
  Bin& bin = sources_[static_cast<size_t>(source)][bin_of(chance)];
  bin.n_tried = kKept * bin.n_tried + 1.0f;
  bin.n_right = kKept * bin.n_right + (is_right ? 1.0f : 0.0f);
}

}  // namespace troika::draft
