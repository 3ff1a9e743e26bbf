#include "solve/neurons/neuron_costs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "weights/neurons/bundle_layout.h"
#include "weights/neurons/source.h"

namespace troika::solve {
namespace {

constexpr int64_t kLongestTokens = 1'000'000'000;  // whatever was used then is out of memory

// A class whose neurons are not pinned, as the cache sees it.
struct Unpinned {
  double n_neurons = 0.0;
  double wanted = 0.0;   // the probability that a neuron is asked for at a token
  double stays = 0.0;    // the probability of that if it was asked for at the token before
  double returns = 0.0;  // the probability of that if it was not
  // Returns the share of neurons that were asked for in the last n tokens, n >= 1.
  double used_within(double n) const {
    return 1.0 - (1.0 - wanted) * std::pow(1.0 - returns, n - 1.0);
  }
  // Returns the probability that a neuron which is asked for was so in the n tokens before.
  double found_within(double n) const {
    return 1.0 - (1.0 - stays) * std::pow(1.0 - returns, n - 1.0);
  }
  // Returns the share of neurons that a token leaves in memory, where one that was read stays with
  // this probability, and then as long as each token asks for it.
  double left_by_token(double stays_when_read) const {
    const double goes = 1.0 - stays * (1.0 - stays_when_read);
    return goes > 0.0 ? stays_when_read * wanted / goes : 0.0;
  }
};

// Neurons that are not pinned and side by side on the disk, and the probability that a token asks
// for one of them in vain.
struct Missing {
  double n_neurons = 0.0;
  double share = 0.0;
};

// The neurons that a step asks for, and those of them that are not in memory.
struct WantedNeurons {
  double n_wanted = 0.0;
  std::vector<Missing> missing;  // the hottest first, as they lie on the disk

  double n_missed() const {
    double n = 0.0;
    for (const Missing& one : missing) n += one.n_neurons * one.share;
    return n;
  }
};

struct NeuronReads {
  double n_requests = 0.0;
  double bytes = 0.0;
};

// Returns the largest number of tokens whose neurons fit n_places, which go by who was used last: a
// neuron that was last used so many tokens ago is in memory. 0: one token asks for more.
int64_t tokens_in_memory(const std::vector<Unpinned>& classes, double n_places) {
  const auto fits = [&](int64_t n_tokens) {
    double n = 0.0;
    for (const Unpinned& one : classes) {
      n += one.n_neurons * one.used_within(static_cast<double>(n_tokens));
    }
    return n <= n_places;
  };
  int64_t low = 0, high = kLongestTokens + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// Returns, for each class, the probability that a token asks for a neuron and finds it in memory,
// where tokens ask for more than there is room for.
std::vector<double> found_of_last_token(const std::vector<Unpinned>& classes, double n_places) {
  constexpr int kHalvings = 60;
  const auto left = [&](double stays_when_read) {
    double n = 0.0;
    for (const Unpinned& one : classes) n += one.n_neurons * one.left_by_token(stays_when_read);
    return n;
  };
  double low = 0.0, high = 1.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (left(middle) <= n_places ? low : high) = middle;
  }
  // Where neurons never change, as many as fit are found.
  const double fitting = std::min(1.0, n_places / std::max(left(high), 1e-300));
  std::vector<double> found;
  for (const Unpinned& one : classes) {
    found.push_back(one.left_by_token(high) * one.stays * fitting);
  }
  return found;
}

// Adds where misses are: neurons that are not pinned turn in n_turning places. What the last token
// asked for stays as far as there is room, and whatever else there is room for goes by who was used
// last.
void enter_missing(const std::vector<Unpinned>& classes, double n_turning, WantedNeurons* all) {
  double n = 0.0;
  for (const Unpinned& one : classes) n += one.n_neurons;
  if (n <= n_turning) return;
  const int64_t n_tokens = tokens_in_memory(classes, n_turning);
  std::vector<double> found;
  if (n_tokens == 0) found = found_of_last_token(classes, n_turning);
  for (size_t i = 0; i < classes.size(); ++i) {
    const Unpinned& one = classes[i];
    const double in_memory =
        n_tokens == 0 ? found[i] : one.wanted * one.found_within(static_cast<double>(n_tokens));
    all->missing.push_back({one.n_neurons, std::max(one.wanted - in_memory, 0.0)});
  }
}

// The hottest neurons are pinned, the others turn.
WantedNeurons wanted_of(const NeuronArrangement& arrangement, int pinned_percent,
                        const NeuronLaw& law) {
  const bool reads_predicted =
      arrangement.has_predictor && arrangement.gates == plan::FfnGates::kInBundles;
  const double per_live = reads_predicted ? arrangement.predicted_per_live : arrangement.recall;
  int64_t n_pins = arrangement.n_places * pinned_percent / 100;
  n_pins =
      std::min(n_pins, std::max<int64_t>(arrangement.n_places - arrangement.n_never_pinned, 0));
  const auto n_turning = static_cast<double>(arrangement.n_places - n_pins);
  WantedNeurons all;
  std::vector<Unpinned> others;
  for (const NeuronClass& one : law.classes) {
    const double wanted = std::min(1.0, one.live * per_live);
    all.n_wanted += static_cast<double>(one.n_neurons) * wanted;
    const int64_t n_pinned = std::min(n_pins, one.n_neurons);
    n_pins -= n_pinned;
    if (n_pinned == one.n_neurons) continue;
    const double again = law.stay + (1.0 - law.stay) * wanted;
    const auto n = static_cast<double>(one.n_neurons - n_pinned);
    others.push_back({n, wanted, again, (1.0 - law.stay) * wanted});
  }
  enter_missing(others, n_turning, &all);
  return all;
}

// Returns the requests that read these neurons, or `bytes` of each: neurons that are missing
// independently of each other, of which those share a request that are near each other.
// `of_missing` says which part of what is missing is read.
NeuronReads reads_of(const NeuronArrangement& arrangement, const std::vector<Missing>& missing,
                     uint64_t bytes, double of_missing = 1.0) {
  constexpr auto kMost = static_cast<double>(weights::kMostBundleRequest);
  if (missing.empty() || arrangement.read_bytes == 0) return {};  // 0: what is read is not known
  const auto stride = static_cast<double>(arrangement.read_bytes);
  // The next neuron shares the request if it is at most so many places behind.
  const auto reach = static_cast<double>((arrangement.gap_bytes + bytes) / arrangement.read_bytes);
  const auto n_per_read = static_cast<double>(arrangement.n_per_read);
  const double n_of_segment = weights::kSegmentNeurons / n_per_read;
  NeuronReads reads;
  for (const Missing& one : missing) {
    const double share = 1.0 - std::pow(1.0 - one.share * of_missing, n_per_read);
    if (share <= 0.0) continue;
    const double n = one.n_neurons / n_per_read * share;
    const double is_last = std::pow(1.0 - share, reach);
    // Sums up the places to the next one, times the probability that it is there, up to `reach`.
    const double places = (1.0 - is_last * (1.0 + reach * share)) / share;
    const double n_bytes = n * (places * stride + is_last * static_cast<double>(bytes));
    reads.bytes += n_bytes;
    // A segment ends the piece that is read at its end. Pieces have random lengths, and are divided
    // where they are too long for a request.
    const double n_ends = one.n_neurons / n_per_read / n_of_segment * (1.0 - is_last);
    const double n_pieces = n * is_last + n_ends, of_most = kMost * n_pieces / n_bytes;
    reads.n_requests += of_most > 1e-9 ? n_pieces / -std::expm1(-of_most) : n_bytes / kMost;
  }
  return reads;
}

double us_of(const DiskTimes& disk, const NeuronReads& reads) {
  if (reads.n_requests <= 0.0) return 0.0;
  return reads.n_requests * disk.request_us(reads.bytes / reads.n_requests);
}

plan::NeuronForecast forecast_by_output(const NeuronArrangement& arrangement,
                                        const DiskTimes& disk) {
  plan::NeuronForecast forecast;
  forecast.compute_ms = arrangement.fixed_us / kUsPerMs;
  forecast.read_ms = disk.in_order_us(arrangement.turn_bytes) / kUsPerMs;
  forecast.read_bytes = arrangement.turn_bytes;
  // Blocks are read ahead, so that only the longer one of the two counts.
  forecast.ms = std::max(forecast.compute_ms, forecast.read_ms);
  return forecast;
}

}  // namespace

int64_t NeuronLaw::n_neurons() const {
  int64_t n = 0;
  for (const NeuronClass& one : classes) n += one.n_neurons;
  return n;
}

double NeuronLaw::n_live() const {
  double n = 0.0;
  for (const NeuronClass& one : classes) n += static_cast<double>(one.n_neurons) * one.live;
  return n;
}

NeuronLaw NeuronLaw::of_sequences(int n) const {
  NeuronLaw law = *this;
  for (NeuronClass& one : law.classes) one.live = 1.0 - std::pow(1.0 - one.live, n);
  return law;
}

DiskTimes::DiskTimes(const plan::Storage& storage) {
  uint64_t range = 0;
  int depth = 0;
  for (const plan::DiskRead& read : storage.reads) {
    if (!read.is_random) {
      bytes_per_us_ = std::max(bytes_per_us_, read.mb_s);
      continue;
    }
    range = std::max(range, read.range_bytes);
    depth = std::max(depth, read.depth);
  }
  std::map<double, double> by_bytes;
  for (const plan::DiskRead& read : storage.reads) {
    const bool counts = read.is_random && read.range_bytes == range && read.depth == depth;
    if (!counts || read.mb_s <= 0.0) continue;
    const auto bytes = static_cast<double>(read.block_bytes);
    by_bytes[bytes] = bytes / read.mb_s;
  }
  requests_.assign(by_bytes.begin(), by_bytes.end());
  if (!requests_.empty() && bytes_per_us_ > 0.0) return;
  throw Error(
      "The profile has no reads of the disk, by which neurons are planned. Measure it again with "
      "'troika profile --again'.");
}

uint64_t DiskTimes::gap_bytes() const {
  return weights::gap_between_bundles(request_us(weights::kBundlePage), 1.0 / bytes_per_us_);
}

double DiskTimes::request_us(double wanted) const {
  // Smaller requests take as long as the smallest that was measured, and larger ones go on at the
  // rate of the largest.
  if (wanted <= requests_.front().first) return requests_.front().second;
  const auto above = std::find_if(requests_.begin(), requests_.end(),
                                  [&](const auto& one) { return one.first >= wanted; });
  if (above == requests_.end()) {
    return requests_.back().second * wanted / requests_.back().first;
  }
  const auto& [high_bytes, high_us] = *above;
  const auto& [low_bytes, low_us] = *(above - 1);
  return low_us + (high_us - low_us) * (wanted - low_bytes) / (high_bytes - low_bytes);
}

plan::NeuronForecast neuron_forecast(const NeuronArrangement& arrangement, const NeuronWay& way,
                                     const NeuronLaw& law, const DiskTimes& disk) {
  if (arrangement.form == plan::FfnForm::kByOutput) return forecast_by_output(arrangement, disk);
  const WantedNeurons wanted = wanted_of(arrangement, way.pinned_percent, law);
  double n_predicted = 0.0;
  for (const NeuronClass& one : law.classes) {
    n_predicted += static_cast<double>(one.n_neurons) *
                   std::min(1.0, one.live * arrangement.predicted_per_live);
  }
  const double n_live = law.n_live() * arrangement.recall;
  const double miss_share = wanted.n_wanted > 0.0 ? wanted.n_missed() / wanted.n_wanted : 0.0;
  plan::NeuronForecast forecast;
  forecast.hit_share = 1.0 - miss_share;
  const bool reads_twice = way.reads_twice && arrangement.gate_bytes > 0;
  const NeuronReads first = reads_of(arrangement, wanted.missing,
                                     reads_twice ? arrangement.gate_bytes : arrangement.read_bytes);
  NeuronReads second;
  if (reads_twice && wanted.n_wanted > 0.0) {
    second = reads_of(arrangement, wanted.missing, arrangement.read_bytes - arrangement.gate_bytes,
                      std::min(n_live, wanted.n_wanted) / wanted.n_wanted);
  }
  forecast.n_reads = first.n_requests + second.n_requests;
  forecast.read_bytes = first.bytes + second.bytes + arrangement.turn_bytes;
  const double read_us = us_of(disk, first) + us_of(disk, second);
  const double before_us =
      arrangement.fixed_us +
      (arrangement.has_predictor ? n_predicted * arrangement.predicted_us : 0.0);
  const double live_us = n_live * arrangement.live_us;
  // Neurons are asked for when the gate or the predictor has spoken. By matrices, those that were
  // missed are computed behind all reads.
  const double meanwhile_us =
      way.pipeline == plan::ReadPipeline::kCluster
          ? std::max(live_us, read_us)
          : std::max(live_us * (1.0 - miss_share), read_us) + live_us * miss_share;
  const double all_reads_us = read_us + disk.in_order_us(arrangement.turn_bytes);
  forecast.compute_ms = (before_us + live_us) / kUsPerMs;
  forecast.read_ms = all_reads_us / kUsPerMs;
  forecast.ms = std::max(before_us + meanwhile_us, all_reads_us) / kUsPerMs;
  return forecast;
}

}  // namespace troika::solve
