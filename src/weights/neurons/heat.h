// How often the neurons of a model fire, counted over a text (P8): which of them are hot. It says
// in which order bundles lie on the disk, and which of them are to stay in memory; it changes no
// value. Kept in a side file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/neurons/neuron_cache.h"

namespace troika::weights {

class NeuronHeat {
 public:
  // REQUIRES: both numbers are above 0.
  NeuronHeat(uint64_t n_layers, uint64_t n_neurons)
      : n_layers_(n_layers), n_neurons_(n_neurons), counts_(n_layers * n_neurons) {}

  uint64_t n_layers() const { return n_layers_; }
  uint64_t n_neurons() const { return n_neurons_; }  // of each layer
  uint64_t n_tokens() const { return n_tokens_; }
  void set_tokens(uint64_t n) { n_tokens_ = n; }
  // (n_neurons): at how many of the tokens each was live.
  std::span<uint32_t> counts(uint64_t layer) {
    return std::span(counts_).subspan(layer * n_neurons_, n_neurons_);
  }
  std::span<const uint32_t> counts(uint64_t layer) const {
    return std::span(counts_).subspan(layer * n_neurons_, n_neurons_);
  }

  // (n_neurons) of a layer, segment after segment, in each the hottest first; those that are
  // equally hot as in the model.
  std::vector<uint32_t> order(uint64_t layer) const;
  // The n hottest of all layers, the hottest first, by their places in that order. Of each segment
  // it has the first ones.
  std::vector<NeuronId> hottest(uint64_t n) const;
  double live_share() const;
  // Tells orders apart.
  uint64_t key() const;

 private:
  uint64_t n_layers_;
  uint64_t n_neurons_;
  uint64_t n_tokens_ = 0;
  std::vector<uint32_t> counts_;  // (n_layers, n_neurons)
};

// Throws Error where the file cannot be written.
void write_heat(const std::string& path, uint64_t model_key, const NeuronHeat& heat);
// None where there is no such file, or it is of another content or shape, or damaged: then
// `problem` says so, to follow its name in a sentence; it is empty where there is none.
std::optional<NeuronHeat> read_heat(const std::string& path, uint64_t model_key, uint64_t n_layers,
                                    uint64_t n_neurons, std::string* problem);

}  // namespace troika::weights
