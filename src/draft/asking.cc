#include "draft/asking.h"

#include <algorithm>

namespace troika::draft {
namespace {

// A trial takes as long as this many passes, or as asking so many times where that is longer.
constexpr double kTrialPasses = 4.0;
// Is the part of all time that trials may take.
constexpr double kTrialShare = 0.02;
// Is the weight of a new measurement in a mean, once there are a few.
constexpr double kNewest = 0.15;
// A time changes what is expected by this factor at most, because it may have been interrupted, or
// include what the source has not read for a while.
constexpr double kMostTimeChange = 1.5;

}  // namespace

void Asking::begin_step(double plain_ms) { is_asked_ = decide(plain_ms); }

bool Asking::decide(double plain_ms) {
  if (plain_ms <= 0.0 || (n_saved_ > 0 && saved_ms_ > ms_)) {
    spent_ms_ = trial_cost_ms_ = 0.0;
    return true;
  }
  const double trial_ms = kTrialPasses * std::max(plain_ms, ms_);
  if (spent_ms_ < trial_ms) return true;
  waited_ms_ += plain_ms;
  if (kTrialShare * waited_ms_ < std::max(trial_ms, trial_cost_ms_)) return false;
  waited_ms_ = spent_ms_ = trial_cost_ms_ = 0.0;
  n_saved_ = 0;  // what was saved before says little by now
  return true;
}

void Asking::took(double ms) {
  ++n_taken_;
  if (n_taken_ == 1) {
    ms_ = first_ms_ = ms;
  } else if (n_taken_ == 2) {
    // The first time included the whole prompt.
    ms_ = std::min(first_ms_, ms);
    spent_ms_ = trial_cost_ms_ = 0.0;
  } else {
    const double bounded = std::clamp(ms, ms_ / kMostTimeChange, ms_ * kMostTimeChange);
    ms_ += kNewest * (bounded - ms_);
  }
  spent_ms_ += ms_;
  trial_cost_ms_ += ms;
}

void Asking::saves(double ms) {
  ++n_saved_;
  saved_ms_ += std::max(kNewest, 1.0 / n_saved_) * (ms - saved_ms_);
}

}  // namespace troika::draft
