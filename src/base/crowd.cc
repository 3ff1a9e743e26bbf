#include "base/crowd.h"

#include <algorithm>

namespace troika {
namespace {

// The scheduler of an operating system thinks in milliseconds: where a run is shorter, no worker
// was kept from running.
constexpr double kShortestCrowdedUs = 1000.0;
// A share of the time of all workers, well above what unequal cores and parts of work bring about.
constexpr double kCrowdedShare = 1.0 / 3.0;
constexpr int kLeastPatience = 8;
constexpr int kMostPatience = 512;

}  // namespace

void Crowd::record(double run_us, double slept_us) {
  const bool is_crowded =
      n_active_ > 1 && run_us > kShortestCrowdedUs && slept_us > kCrowdedShare * run_us * n_active_;
  if (is_crowded) {
    // The trial was in vain again: wait longer before the next one.
    if (is_trial_) patience_ = std::min(2 * patience_, kMostPatience);
    n_active_ -= std::max(1, n_active_ / 4);
    n_quiet_ = 0;
    is_trial_ = false;
    return;
  }
  ++n_quiet_;
  if (is_trial_ && n_quiet_ >= kLeastPatience) {
    is_trial_ = false;
    patience_ = kLeastPatience;
  }
  if (n_active_ < n_workers_ && n_quiet_ >= patience_) {
    ++n_active_;
    n_quiet_ = 0;
    is_trial_ = true;
  }
}

}  // namespace troika
