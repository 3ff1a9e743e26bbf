#include "draft/width_costs.h"

#include <algorithm>

#include "base/error.h"

namespace troika::draft {
namespace {

// Is the weight of a new measurement in what is expected, once there are a few measurements.
constexpr double kShare = 0.15;
// A measurement changes the expectation by this factor at most, because the pass may have been
// interrupted.
constexpr double kMostChange = 1.5;
// The expected time of a wide pass falls with every pass of another width, because the last
// measurement may have been bad luck: so the width is tried again at some time. After kForgotten
// passes of other widths, the new try replaces what was expected before.
constexpr double kDoubt = 0.9995;
constexpr double kForgotten = 200.0;
// Is the time of each further token as a share of the first one's, before anything is known.
constexpr double kFirstSlope = 0.15;
// The first pass of a width may have been slow because memory was cold or because it was
// interrupted. So until there is a second one, it counts for at most this much more than other
// widths let expect.
constexpr double kMostSurprise = 1.05;

}  // namespace

WidthCosts::WidthCosts(int most_width) : entries_(static_cast<size_t>(most_width) + 1) {}

void WidthCosts::learn(int width, double ms) {
  TROIKA_ASSERT(width >= 1 && width < static_cast<int>(entries_.size()));
  Entry& entry = entries_[static_cast<size_t>(width)];
  const double expected = this->ms(width);
  ++entry.n_measured;
  if (entry.n_measured == 1) {
    entry.first_ms = ms;
    entry.ms = width > 1 && expected > 0.0 ? std::min(ms, kMostSurprise * expected) : ms;
  } else if (entry.n_measured == 2) {
    entry.ms = std::min(entry.first_ms, ms);
  } else {
    const double bounded = std::clamp(ms, entry.ms / kMostChange, entry.ms * kMostChange);
    const double share = std::clamp(entry.n_since / kForgotten, kShare, 1.0);
    entry.ms += share * (bounded - entry.ms);
  }
  entry.n_since = 0;
  // A first measurement that was not believed says nothing about wider passes.
  const bool is_doubted = entry.n_measured == 1 && entry.ms < entry.first_ms;
  if (!is_doubted) widest_ = std::max(widest_, width);
  const double least = entries_[1].ms;
  for (int other = 2; other <= widest_; ++other) {
    Entry& e = entries_[static_cast<size_t>(other)];
    if (other == width || e.n_measured == 0) continue;
    e.ms = std::max(least, e.ms * kDoubt);
    ++e.n_since;
  }
}

void WidthCosts::begin_with(int width, double ms) {
  TROIKA_ASSERT(width >= 1 && width < static_cast<int>(entries_.size()));
  Entry& entry = entries_[static_cast<size_t>(width)];
  entry = {.ms = ms, .first_ms = ms, .n_measured = 1};
  widest_ = std::max(widest_, width);
}

std::vector<std::pair<int, double>> WidthCosts::measured() const {
  std::vector<std::pair<int, double>> all;
  for (int width = 1; width <= widest_; ++width) {
    const Entry& entry = entries_[static_cast<size_t>(width)];
    if (entry.n_measured > 0) all.emplace_back(width, entry.ms);
  }
  return all;
}

int WidthCosts::measured_below(int width) const {
  do {
    --width;
  } while (width > 0 && entries_[static_cast<size_t>(width)].n_measured == 0);
  return width;
}

double WidthCosts::ms(int width) const {
  if (widest_ == 0) return 0.0;
  const auto at = [&](int w) { return entries_[static_cast<size_t>(w)].ms; };
  int high = std::min(width, widest_);
  while (entries_[static_cast<size_t>(high)].n_measured == 0) ++high;
  const int low = measured_below(width);
  if (high == width || low == 0) return at(high);
  if (high > width) return at(low) + (at(high) - at(low)) * (width - low) / (high - low);
  const int before = measured_below(high);
  const double slope = before > 0 ? std::max(0.0, (at(high) - at(before)) / (high - before))
                                  : kFirstSlope * at(high);
  return at(high) + slope * (width - high);
}

}  // namespace troika::draft
