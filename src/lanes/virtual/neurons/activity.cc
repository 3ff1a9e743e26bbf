#include "lanes/virtual/neurons/activity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "plan/neurons/firing_law.h"

namespace troika::lanes {
namespace {

constexpr double kTwoTo32 = 4294967296.0;

}  // namespace

NeuronActivity::NeuronActivity(const plan::NeuronStatistics& statistics, int n_groups,
                               int n_neurons, uint64_t seed)
    : statistics_(statistics),
      shares_(plan::firing_shares(statistics.law(), n_neurons)),
      n_groups_(n_groups),
      state_(random_bits(seed, 0) | 1) {
  for (const double share : shares_) {
    thresholds_.push_back(static_cast<uint32_t>(std::min(share * kTwoTo32, kTwoTo32 - 1.0)));
  }
  if (statistics.overlap > 0.0) skip_ = 1.0 / std::log(statistics.overlap);
}

// Draws by xorshift64*.
uint64_t NeuronActivity::bits() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545F4914F6CDD1Du;
}

double NeuronActivity::draw() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

NeuronActivity::Sequence& NeuronActivity::sequence_of(int index) {
  while (sequences_.size() <= static_cast<size_t>(index)) {
    Sequence& added = sequences_.emplace_back();
    added.fires.resize(static_cast<size_t>(n_groups_) * shares_.size());
    added.is_known.resize(static_cast<size_t>(n_groups_));
  }
  return sequences_[static_cast<size_t>(index)];
}

std::span<const uint8_t> NeuronActivity::advance(int sequence, int group) {
  Sequence& with = sequence_of(sequence);
  const size_t n = shares_.size();
  const auto fires = std::span(with.fires).subspan(static_cast<size_t>(group) * n, n);
  uint8_t& is_known = with.is_known[static_cast<size_t>(group)];
  const auto redraw = [&](size_t i) {
    fires[i] = static_cast<uint32_t>(bits() >> 32) < thresholds_[i] ? 1 : 0;
  };
  if (is_known == 0 || statistics_.overlap <= 0.0) {
    for (size_t i = 0; i < n; ++i) redraw(i);
    is_known = 1;
  } else if (statistics_.overlap < 1.0) {
    // The loop steps from one newly drawn neuron to the next.
    for (double i = std::floor(std::log(1.0 - draw()) * skip_); i < static_cast<double>(n);
         i += 1.0 + std::floor(std::log(1.0 - draw()) * skip_)) {
      redraw(static_cast<size_t>(i));
    }
  }
  return fires;
}

std::span<const int> NeuronActivity::route(int sequence, int layer, int n_experts, int n_used) {
  Sequence& with = sequence_of(sequence);
  if (with.routes.size() <= static_cast<size_t>(layer)) {
    with.routes.resize(static_cast<size_t>(layer) + 1);
  }
  std::vector<int>& route = with.routes[static_cast<size_t>(layer)];
  if (!route.empty() && draw() < statistics_.overlap) return route;
  route.clear();
  while (static_cast<int>(route.size()) < n_used) {
    const int expert = static_cast<int>(draw() * n_experts);
    if (std::find(route.begin(), route.end(), expert) == route.end()) route.push_back(expert);
  }
  std::sort(route.begin(), route.end());
  return route;
}

int NeuronActivity::draw_continued(int n) {
  int continued = 0;
  for (int i = 0; i < n; ++i) continued += draw() < statistics_.continue_share ? 1 : 0;
  return continued;
}

}  // namespace troika::lanes
