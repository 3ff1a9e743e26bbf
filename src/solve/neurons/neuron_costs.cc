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

// Returns neurons that do what they did at the token before with the probability `stay`, and are
// else asked for as often as `wanted` says.
Unpinned by_law(int64_t n_neurons, double wanted, double stay) {
  return {static_cast<double>(n_neurons), wanted, stay + (1.0 - stay) * wanted,
          (1.0 - stay) * wanted};
}

// Says by how much what tokens need differs from what a law says that looks one token back.
class Recall {
 public:
  // `all` has the neurons that a token needs, and `found` is as a law's `found_within`.
  Recall(const std::vector<Unpinned>& all, const std::vector<double>& found) {
    double n_wanted = 0.0;
    for (const Unpinned& one : all) n_wanted += one.n_neurons * one.wanted;
    double n_used = n_wanted;  // counts those that n tokens need
    for (size_t i = 0; i < found.size(); ++i) {
      const auto n = static_cast<double>(i + 1);
      double by_law = 0.0, found_by_law = 0.0;
      for (const Unpinned& one : all) {
        by_law += one.n_neurons * one.used_within(n);
        found_by_law += one.n_neurons * one.wanted * one.found_within(n);
      }
      const double missed_by_law = n_wanted - found_by_law, missed = n_wanted * (1.0 - found[i]);
      used_.push_back(by_law > 0.0 ? n_used / by_law : 1.0);
      missed_.push_back(missed_by_law > 0.0 ? missed / missed_by_law : 1.0);
      n_used += missed;
    }
  }
  // Return the factors for so many tokens, n >= 1. Of more than were counted nothing else is known.
  double used(double n) const { return of(used_, n); }
  double missed(double n) const { return of(missed_, n); }

 private:
  static double of(const std::vector<double>& factors, double n) {
    if (factors.empty()) return 1.0;
    return factors[static_cast<size_t>(std::min(n, static_cast<double>(factors.size()))) - 1];
  }

  std::vector<double> used_, missed_;
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
int64_t tokens_in_memory(const std::vector<Unpinned>& classes, const Recall& recall,
                         double n_places) {
  const auto fits = [&](int64_t n_tokens) {
    double n = 0.0;
    for (const Unpinned& one : classes) {
      n += one.n_neurons * one.used_within(static_cast<double>(n_tokens));
    }
    return n * recall.used(static_cast<double>(n_tokens)) <= n_places;
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
void enter_missing(const std::vector<Unpinned>& classes, const Recall& recall, double n_turning,
                   WantedNeurons* all) {
  double n = 0.0;
  for (const Unpinned& one : classes) n += one.n_neurons;
  if (n <= n_turning) return;
  const int64_t n_tokens = tokens_in_memory(classes, recall, n_turning);
  const auto within = static_cast<double>(n_tokens);
  std::vector<double> found;
  if (n_tokens == 0) found = found_of_last_token(classes, n_turning);
  for (size_t i = 0; i < classes.size(); ++i) {
    const Unpinned& one = classes[i];
    const double missed =
        n_tokens == 0 ? one.wanted - found[i]
                      : one.wanted * (1.0 - one.found_within(within)) * recall.missed(within);
    all->missing.push_back({one.n_neurons, std::clamp(missed, 0.0, one.wanted)});
  }
}

// The hottest neurons are pinned, the others turn.
WantedNeurons wanted_of(const NeuronArrangement& arrangement, int pinned_percent,
                        const NeuronLaw& law) {
  const bool reads_predicted =
      arrangement.has_predictor && arrangement.gates == plan::FfnGates::kInBundles;
  const double per_live = reads_predicted ? arrangement.predicted_per_live : arrangement.recall;
  int64_t n_pins = n_pinned(arrangement, pinned_percent);
  const auto n_turning = static_cast<double>(arrangement.n_places - n_pins);
  WantedNeurons all;
  std::vector<Unpinned> whole, others;
  for (const NeuronClass& one : law.classes) {
    const double wanted = std::min(1.0, one.live * per_live);
    all.n_wanted += static_cast<double>(one.n_neurons) * wanted;
    const int64_t pins = std::min(n_pins, one.n_neurons);
    n_pins -= pins;
    whole.push_back(by_law(one.n_neurons, wanted, law.stay));
    if (pins == one.n_neurons) continue;
    others.push_back(whole.back());
    others.back().n_neurons -= static_cast<double>(pins);
  }
  enter_missing(others, Recall(whole, law.found_within), n_turning, &all);
  return all;
}

// Returns the requests that read these neurons, or `bytes` of each: neurons that are missing
// independently of each other, of which those share a request that are near each other.
NeuronReads reads_of(const NeuronArrangement& arrangement, const std::vector<Missing>& missing,
                     uint64_t bytes) {
  constexpr auto kMost = static_cast<double>(weights::kMostBundleRequest);
  if (missing.empty() || arrangement.read_bytes == 0) return {};  // 0: what is read is not known
  const auto stride = static_cast<double>(arrangement.read_bytes);
  // The next neuron shares the request if it is at most so many places behind.
  const auto reach = static_cast<double>((arrangement.gap_bytes + bytes) / arrangement.read_bytes);
  const auto n_per_read = static_cast<double>(arrangement.n_per_read);
  const double n_of_segment = weights::kSegmentNeurons / n_per_read;
  NeuronReads reads;
  for (const Missing& one : missing) {
    const double share = 1.0 - std::pow(1.0 - one.share, n_per_read);
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

// What a step reads of experts when a router asks, or of their gates.
struct ExpertReads {
  double found = 1.0;  // the share of what it asks for that is in memory
  double bytes = 0.0;
  double us = 0.0;
};

ExpertReads expert_reads(const NeuronArrangement& arrangement, const NeuronLaw& law,
                         const DiskTimes& disk) {
  ExpertReads reads;
  const double n_wanted = static_cast<double>(law.experts.n_neurons) * law.experts.live;
  if (arrangement.expert_bytes <= 0.0 || n_wanted <= 0.0) return reads;
  const double live = law.experts.live;
  const double again = law.experts_found_within.empty() ? live : law.experts_found_within.front();
  // Those that are taken as often as before are taken anew as often as others leave.
  const double anew = live < 1.0 ? std::min(live * (1.0 - again) / (1.0 - live), 1.0) : 1.0;
  const std::vector<Unpinned> experts = {
      {static_cast<double>(law.experts.n_neurons), live, again, anew}};
  WantedNeurons wanted;
  enter_missing(experts, Recall(experts, law.experts_found_within),
                static_cast<double>(arrangement.n_expert_places), &wanted);
  reads.found = 1.0 - wanted.n_missed() / n_wanted;
  reads.bytes = wanted.n_missed() * arrangement.expert_bytes;
  reads.us = disk.in_order_us(reads.bytes);
  return reads;
}

// Returns the time of what is computed whoever is live, with the wait for experts that are read. A
// router names them, and what comes first is computed first: no more than the experts of layers
// that miss some.
double fixed_us(const NeuronArrangement& arrangement, const ExpertReads& reads) {
  const double meanwhile_us = (1.0 - reads.found) * arrangement.experts_us;
  return arrangement.fixed_us + std::max(reads.us - meanwhile_us, 0.0);
}

plan::NeuronForecast forecast_by_output(const NeuronArrangement& arrangement, const NeuronLaw& law,
                                        const DiskTimes& disk) {
  const ExpertReads experts = expert_reads(arrangement, law, disk);
  const double reads_us = disk.in_order_us(arrangement.turn_bytes) + experts.us;
  plan::NeuronForecast forecast;
  forecast.hit_share = experts.found;
  forecast.compute_ms = arrangement.fixed_us / kUsPerMs;
  forecast.read_ms = reads_us / kUsPerMs;
  forecast.read_bytes = arrangement.turn_bytes + experts.bytes;
  // Blocks are read ahead, so that only the longer one of the two counts.
  forecast.ms = std::max(fixed_us(arrangement, experts), reads_us) / kUsPerMs;
  return forecast;
}

}  // namespace

int64_t n_pinned(const NeuronArrangement& arrangement, int percent) {
  const int64_t n_most = std::max<int64_t>(arrangement.n_places - arrangement.n_never_pinned, 0);
  return std::min(arrangement.n_places * percent / 100, n_most);
}

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

double NeuronLaw::live_share(bool is_of_experts) const {
  const int64_t n = n_neurons();
  if (n == 0) return 0.0;
  const double live = n_live() / static_cast<double>(n);
  // Neurons of an expert were counted as dead at tokens that do not take it.
  return is_of_experts && experts.live > 0.0 ? std::min(1.0, live / experts.live) : live;
}

NeuronLaw NeuronLaw::of_sequences(int n) const {
  NeuronLaw law = *this;
  const auto by_any = [n](double by_one) { return 1.0 - std::pow(1.0 - by_one, n); };
  // What a sequence did not need lately, the others may have needed.
  const auto with_others = [n](double own, double by_one) {
    return 1.0 - (1.0 - own) * std::pow(1.0 - std::min(by_one, 1.0), n - 1);
  };
  for (size_t i = 0; i < found_within.size(); ++i) {
    double used = 0.0, wanted = 0.0;
    for (const NeuronClass& one : classes) {
      const Unpinned own = by_law(one.n_neurons, one.live, stay);
      used += own.n_neurons * own.wanted * own.used_within(static_cast<double>(i + 1));
      wanted += own.n_neurons * own.wanted;
    }
    law.found_within[i] = with_others(found_within[i], wanted > 0.0 ? used / wanted : 0.0);
  }
  double used_experts = experts.live;  // the share that so many tokens use
  for (size_t i = 0; i < experts_found_within.size(); ++i) {
    law.experts_found_within[i] = with_others(experts_found_within[i], used_experts);
    used_experts += experts.live * (1.0 - experts_found_within[i]);
  }
  for (NeuronClass& one : law.classes) one.live = by_any(one.live);
  law.experts.live = by_any(experts.live);
  return law;
}

DiskTimes::DiskTimes(const plan::Storage& storage, const std::string& advice) {
  uint64_t range = 0;
  int depth = 0;
  for (const plan::DiskRead& read : storage.reads) {
    if (!read.is_random) {
      bytes_per_us_ = std::max(bytes_per_us_, read.mb_s);
      continue;
    }
    // The most reads at once within the widest range; elsewhere there may have been more.
    if (read.range_bytes > range) depth = 0;
    range = std::max(range, read.range_bytes);
    if (read.range_bytes == range) depth = std::max(depth, read.depth);
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
  throw Error("The profile has no reads of the disk, by which neurons are planned. " + advice);
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
  if (arrangement.form == plan::FfnForm::kByOutput) {
    return forecast_by_output(arrangement, law, disk);
  }
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
    // A request over the gates of neighbours brings all of them but the last whole. What is left is
    // too far apart to share requests.
    second.n_requests = first.n_requests * std::min(n_live / wanted.n_wanted, 1.0);
    second.bytes =
        second.n_requests * static_cast<double>(arrangement.read_bytes - arrangement.gate_bytes);
  }
  forecast.n_reads = first.n_requests + second.n_requests;
  const ExpertReads gates = expert_reads(arrangement, law, disk);
  forecast.read_bytes = first.bytes + second.bytes + arrangement.turn_bytes + gates.bytes;
  const double read_us = us_of(disk, first) + us_of(disk, second);
  const double predicted_us =
      arrangement.has_predictor ? n_predicted * arrangement.predicted_us : 0.0;
  const double before_us = fixed_us(arrangement, gates) + predicted_us;
  const double live_us = n_live * arrangement.live_us;
  // Neurons are asked for when the gate or the predictor has spoken. By matrices, those that were
  // missed are computed behind all reads.
  const double meanwhile_us =
      way.pipeline == plan::ReadPipeline::kCluster
          ? std::max(live_us, read_us)
          : std::max(live_us * (1.0 - miss_share), read_us) + live_us * miss_share;
  const double all_reads_us = read_us + gates.us + disk.in_order_us(arrangement.turn_bytes);
  forecast.compute_ms = (arrangement.fixed_us + predicted_us + live_us) / kUsPerMs;
  forecast.read_ms = all_reads_us / kUsPerMs;
  forecast.ms = std::max(before_us + meanwhile_us, all_reads_us) / kUsPerMs;
  return forecast;
}

}  // namespace troika::solve
