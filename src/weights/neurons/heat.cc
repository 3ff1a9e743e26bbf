#include "weights/neurons/heat.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/hash.h"
#include "base/side_file.h"
#include "weights/neurons/source.h"

namespace troika::weights {
namespace {

constexpr char kHeatMagic[16] = "troika-heat";
constexpr uint64_t kHeatVersion = 4;

struct HeatHeader {  // All words have the little end first, as the machines that this runs on do.
  char magic[16];
  uint64_t version;
  uint64_t model_key;
  uint64_t n_layers;
  uint64_t n_neurons;
  uint64_t n_tokens;
  NeuronHeat::Reuse neurons;
  NeuronHeat::Reuse experts;
  uint64_t hash;  // hashes the counts and everything before it
};

uint64_t heat_hash(const HeatHeader& header, const NeuronHeat& heat) {
  Fnv hash;
  hash.add(std::as_bytes(std::span(&header, 1)).first(offsetof(HeatHeader, hash)));
  hash.add(heat.key());
  return hash.value();
}

}  // namespace

std::vector<uint32_t> NeuronHeat::order(uint64_t layer) const {
  std::vector<uint32_t> order(n_neurons_);
  std::iota(order.begin(), order.end(), 0);
  const std::span<const uint32_t> counts = this->counts(layer);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = begin + std::min<ptrdiff_t>(kSegmentNeurons, order.end() - begin);
    std::stable_sort(begin, end, [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    begin = end;
  }
  return order;
}

std::vector<NeuronId> NeuronHeat::hottest(uint64_t n) const {
  struct Hot {
    uint32_t count;
    NeuronId id;
  };
  std::vector<Hot> all;
  all.reserve(counts_.size());
  for (uint64_t layer = 0; layer < n_layers_; ++layer) {
    const std::vector<uint32_t> order = this->order(layer);
    for (uint64_t place = 0; place < n_neurons_; ++place) {
      all.push_back(
          {counts(layer)[order[place]], {static_cast<int>(layer), static_cast<int>(place)}});
    }
  }
  // Neurons with equal counts go by their place in their segments, so that each segment has its
  // first ones, and all segments about as many.
  std::sort(all.begin(), all.end(), [](const Hot& a, const Hot& b) {
    if (a.count != b.count) return a.count > b.count;
    const int place_a = a.id.neuron % kSegmentNeurons, place_b = b.id.neuron % kSegmentNeurons;
    if (place_a != place_b) return place_a < place_b;
    return a.id.group != b.id.group ? a.id.group < b.id.group : a.id.neuron < b.id.neuron;
  });
  std::vector<NeuronId> hottest;
  for (uint64_t i = 0; i < std::min<uint64_t>(n, all.size()); ++i) hottest.push_back(all[i].id);
  return hottest;
}

double NeuronHeat::live_share() const {
  uint64_t n_live = 0;
  for (const uint32_t count : counts_) n_live += count;
  const double most = static_cast<double>(n_tokens_) * static_cast<double>(counts_.size());
  return most > 0 ? static_cast<double>(n_live) / most : 0.0;
}

double NeuronHeat::share_for(uint64_t layer, double of_firing) const {
  const std::span<const uint32_t> all = counts(layer);
  std::vector<uint32_t> hottest_first(all.begin(), all.end());
  std::sort(hottest_first.begin(), hottest_first.end(), std::greater<>());
  const double wanted =
      of_firing * static_cast<double>(std::accumulate(all.begin(), all.end(), uint64_t{0}));
  double sum = 0.0;
  size_t n = 0;
  while (n < hottest_first.size() && sum < wanted) sum += hottest_first[n++];
  return n_neurons_ > 0 ? static_cast<double>(n) / static_cast<double>(n_neurons_) : 0.0;
}

double NeuronHeat::Reuse::found_within(size_t n) const {
  const Counts& counts = within[n - 1];
  return counts.n > 0 ? static_cast<double>(counts.n_again) / static_cast<double>(counts.n) : 0.0;
}

double NeuronHeat::stay() const {
  if (n_tokens_ == 0 || neurons_reuse_.within[0].n == 0) return 0.0;
  double once = 0.0, by_chance = 0.0;
  for (const uint32_t count : counts_) {
    const double live = static_cast<double>(count) / static_cast<double>(n_tokens_);
    once += live;
    by_chance += live * live;
  }
  if (once - by_chance <= 0.0) return 0.0;  // neurons that are live always or never say nothing
  const double chance = by_chance / once;
  return std::clamp((neurons_reuse_.found_within(1) - chance) / (1.0 - chance), 0.0, 1.0);
}

uint64_t NeuronHeat::key() const { return hash_of(std::as_bytes(std::span(counts_))); }

void write_heat(const std::string& path, uint64_t model_key, const NeuronHeat& heat) {
  HeatHeader header = {{},
                       kHeatVersion,
                       model_key,
                       heat.n_layers(),
                       heat.n_neurons(),
                       heat.n_tokens(),
                       heat.neurons_reuse(),
                       heat.experts_reuse(),
                       0};
  std::memcpy(header.magic, kHeatMagic, sizeof(kHeatMagic));
  header.hash = heat_hash(header, heat);
  make_place_for(path);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  for (uint64_t layer = 0; layer < heat.n_layers(); ++layer) {
    file.write(std::as_bytes(heat.counts(layer)));
  }
  file.commit();
}

std::optional<NeuronHeat> read_heat(const std::string& path, uint64_t model_key, uint64_t n_layers,
                                    uint64_t n_neurons, std::string* problem) {
  const SideFile file(path, problem);
  if (!file.is_open()) return std::nullopt;
  HeatHeader header;
  const auto refuse = [&](const char* why) {
    *problem = why;
    return std::nullopt;
  };
  if (!file.read(0, std::as_writable_bytes(std::span(&header, 1)))) return refuse("is too short");
  if (std::memcmp(header.magic, kHeatMagic, sizeof(kHeatMagic)) != 0) {
    return refuse("is no file of such counts");
  }
  if (header.version != kHeatVersion) return refuse("was made by another version of this program");
  if (header.model_key != model_key) {
    return refuse("was made for another content of the model, or with other thresholds");
  }
  if (header.n_layers != n_layers || header.n_neurons != n_neurons) {
    return refuse("was made for a model of another shape");
  }
  NeuronHeat heat(n_layers, n_neurons);
  heat.set_tokens(header.n_tokens);
  heat.set_reuse(header.neurons, header.experts);
  uint64_t offset = sizeof(header);
  for (uint64_t layer = 0; layer < n_layers; ++layer) {
    const std::span<std::byte> counts = std::as_writable_bytes(heat.counts(layer));
    if (!file.read(offset, counts)) return refuse("is too short");
    offset += counts.size();
  }
  if (offset != file.bytes()) return refuse("has not the length that it says");
  if (heat_hash(header, heat) != header.hash) return refuse("is damaged");
  return heat;
}

}  // namespace troika::weights
