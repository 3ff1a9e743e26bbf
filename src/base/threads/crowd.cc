#include "base/threads/crowd.h"

#include <algorithm>

namespace troika {
namespace {

// A run shorter than this proves nothing: the scheduler of an operating system thinks in
// milliseconds, so no worker was kept from running.
constexpr double kShortestCrowdedUs = 1000.0;
// If workers slept for more than this share of the time of all workers, the machine is crowded.
// Unequal cores and parts of work bring about much less.
constexpr double kCrowdedShare = 1.0 / 3.0;
constexpr int kLeastPatience = 8;
constexpr int kMostPatience = 512;

}  // namespace

void Crowd::record(double run_us, double slept_us) {
  const bool is_crowded =
      n_active_ > 1 && run_us > kShortestCrowdedUs && slept_us > kCrowdedShare * run_us * n_active_;
  if (is_crowded) {
    // The trial was in vain again, so the next one comes later.
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
