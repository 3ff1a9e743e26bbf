// Prints which share of the neurons that tokens need a cache finds (P5), by LRU and where the last
// steps are kept, with the shapes of a model of 7B and the law of planted models: no weights, no
// reads, no time.
//
//     troika_neuron_cache_bench [PLACES [AT_ONCE]]     (71000 places, 12 segments under way at
//     once)
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <vector>

#include "base/random.h"
#include "plan/neurons/firing_law.h"
#include "weights/neurons/neuron_cache.h"
#include "weights/neurons/source.h"

namespace troika {
namespace {

using weights::NeuronCache;
using Segment = std::vector<NeuronCache::Held>;

constexpr int kLayers = 32;
constexpr int kNeurons = 14336;
constexpr int kSegments = kNeurons / weights::kSegmentNeurons;
constexpr int kTokens = 40;

struct Outcome {
  double n_needed = 0.0;  // by a token
  double found = 0.0;
};

// Lets neurons fire by a law, and asks a cache for them, segment after segment.
class Tokens {
 public:
  Tokens(double live_share, double overlap, NeuronCache* cache, size_t n_at_once)
      : shares_(plan::firing_shares({.live_share = live_share}, kNeurons)),
        overlap_(overlap),
        cache_(*cache),
        n_at_once_(n_at_once),
        is_live_(size_t{kLayers} * kNeurons) {}

  Outcome run() {
    for (int token = 0; token < kTokens; ++token) {
      if (token == kTokens / 2) cache_.reset_counters();
      for (int layer = 0; layer < kLayers; ++layer) ask(layer, token);
    }
    const NeuronCache::Counters& counters = cache_.counters(NeuronCache::Region::kCold);
    const auto n = static_cast<double>(counters.hits + counters.misses);
    return {n / (kTokens - kTokens / 2), static_cast<double>(counters.hits) / n};
  }

 private:
  double draw() { return random_unit(1, n_drawn_++); }

  void ask(int layer, int token) {
    cache_.begin_group(layer);
    for (int segment = 0; segment < kSegments; ++segment) {
      Segment held;
      for (int place = 0; place < weights::kSegmentNeurons; ++place) {
        // The hottest stand first in each segment.
        const auto rank = static_cast<size_t>(place * kSegments + segment);
        auto is_live =
            is_live_.begin() + ptrdiff_t{layer} * kNeurons + static_cast<ptrdiff_t>(rank);
        if (token == 0 || draw() >= overlap_) *is_live = draw() < shares_[rank];
        if (*is_live) held.push_back(acquire({layer, segment * weights::kSegmentNeurons + place}));
      }
      open_.push_back(std::move(held));
      while (open_.size() >= n_at_once_) end_one();
    }
    while (!open_.empty()) end_one();
  }

  NeuronCache::Held acquire(weights::NeuronId id) {
    for (;;) {
      const NeuronCache::Held held = cache_.acquire(id, !open_.empty());
      if (held.is_held()) return held;
      end_one();
    }
  }

  void end_one() {
    for (const NeuronCache::Held& held : open_.front()) {
      if (held.found == NeuronCache::Found::kMiss) cache_.filled(held);
      cache_.give_back(held);
    }
    open_.pop_front();
  }

  std::vector<double> shares_;
  double overlap_;
  NeuronCache& cache_;
  size_t n_at_once_;
  std::vector<bool> is_live_;
  std::deque<Segment> open_;
  uint64_t n_drawn_ = 0;
};

Outcome outcome_of(uint64_t n_places, bool keeps_last_steps, double live_share, double overlap,
                   size_t n_at_once) {
  weights::NeuronCacheOptions options;
  options.capacity_bytes = n_places;
  options.keeps_last_steps = keeps_last_steps;
  options.n_under_way = 256;
  NeuronCache cache({kLayers, kNeurons, weights::kSegmentNeurons, 1}, options);
  return Tokens(live_share, overlap, &cache, n_at_once).run();
}

}  // namespace
}  // namespace troika

int main(int argc, char** argv) {
  const uint64_t n_places = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 71000;
  const size_t n_at_once = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 12;
  fmt::print(
      "| neurons that a token needs | overlap | LRU | last steps kept |\n"
      "|---:|---:|---:|---:|\n");
  for (const double live_share : {0.10, 0.14, 0.155, 0.17, 0.22, 0.35}) {
    for (const double overlap : {0.9, 0.5, 0.0}) {
      const auto lru = troika::outcome_of(n_places, false, live_share, overlap, n_at_once);
      const auto kept = troika::outcome_of(n_places, true, live_share, overlap, n_at_once);
      fmt::print("| {:.0f} | {:.1f} | {:.0f} % | {:.0f} % |\n", kept.n_needed, overlap,
                 100 * lru.found, 100 * kept.found);
    }
  }
  return 0;
}
