// Counts how often the neurons of a model fire over a text (P8). It tells which of them are hot: in
// which order bundles lie on the disk, and which neurons are to stay in memory. It changes no
// value. It is kept in a side file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/neurons/neuron_cache.h"

namespace troika::weights {

class NeuronHeat {
 public:
  // Says how soon neurons, or experts, are used again in what the model writes, which keeps to its
  // topic more than a text does that is read in parts.
  struct Reuse {
    static constexpr size_t kMostTokens = 16;
    struct Counts {
      uint64_t n = 0;        // counts those that a token used which has so many tokens before it
      uint64_t n_again = 0;  // counts those of them that one of these tokens used too
    };
    // Returns the share of what a token uses that one of the n tokens before it used.
    // REQUIRES: 1 <= n <= kMostTokens.
    double found_within(size_t n) const;
    bool is_known() const { return within.back().n > 0; }

    std::array<Counts, kMostTokens> within = {};
  };

  // REQUIRES: both numbers are above 0.
  NeuronHeat(uint64_t n_layers, uint64_t n_neurons)
      : n_layers_(n_layers), n_neurons_(n_neurons), counts_(n_layers * n_neurons) {}

  uint64_t n_layers() const { return n_layers_; }
  uint64_t n_neurons() const { return n_neurons_; }  // counts those of each layer
  uint64_t n_tokens() const { return n_tokens_; }
  void set_tokens(uint64_t n) { n_tokens_ = n; }
  const Reuse& neurons_reuse() const { return neurons_reuse_; }
  const Reuse& experts_reuse() const { return experts_reuse_; }
  void set_reuse(const Reuse& neurons, const Reuse& experts) {
    neurons_reuse_ = neurons, experts_reuse_ = experts;
  }
  // Returns (n_neurons) counts of the tokens at which each neuron was live.
  std::span<uint32_t> counts(uint64_t layer) {
    return std::span(counts_).subspan(layer * n_neurons_, n_neurons_);
  }
  std::span<const uint32_t> counts(uint64_t layer) const {
    return std::span(counts_).subspan(layer * n_neurons_, n_neurons_);
  }

  // Returns (n_neurons) neurons of a layer, segment after segment, the hottest of a segment first.
  // Equally hot ones keep the model's order.
  std::vector<uint32_t> order(uint64_t layer) const;
  // Returns the n hottest neurons of all layers, the hottest first, by their places in `order`.
  // From each segment it takes the first ones.
  std::vector<NeuronId> hottest(uint64_t n) const;
  double live_share() const;
  // Returns the least share of a layer's neurons that has this share of all firing.
  double share_for(uint64_t layer, double of_firing) const;
  // Returns the probability that a neuron does what it did at the token before, beyond what its own
  // frequency in the text explains. 0: nothing more is known. Where a token does not take an
  // expert, its neurons are not live.
  double stay() const;
  // Returns a key that tells orders apart.
  uint64_t key() const;

 private:
  uint64_t n_layers_;
  uint64_t n_neurons_;
  uint64_t n_tokens_ = 0;
  Reuse neurons_reuse_;
  Reuse experts_reuse_;
  std::vector<uint32_t> counts_;  // (n_layers, n_neurons)
};

// `model_key` stands for the model's content and the thresholds that neurons were counted with.
// Throws Error where the file cannot be written.
void write_heat(const std::string& path, uint64_t model_key, const NeuronHeat& heat);
// Returns nothing where there is no such file, or it has another content or shape, or is damaged.
// Then `problem` says why, as words that follow the file's name in a sentence; it stays empty where
// there is no file.
std::optional<NeuronHeat> read_heat(const std::string& path, uint64_t model_key, uint64_t n_layers,
                                    uint64_t n_neurons, std::string* problem);

}  // namespace troika::weights
