// Predicts what a step costs where neurons, or parts of blocks, are read from the disk while others
// compute (P8). It is arithmetic over measured rates and counted neurons.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/neurons/streamed_neurons.h"
#include "plan/profile.h"

namespace troika::solve {

// Neurons that were live at equally many tokens.
struct NeuronClass {
  int64_t n_neurons = 0;
  double live = 0.0;  // the share of tokens at which each of them is live
};

// How neurons fire. With the probability `stay` a neuron does at a token what it did at the one
// before; otherwise it fires as often as its class does, whatever the others do.
struct NeuronLaw {
  std::vector<NeuronClass> classes;  // those that are live most often come first
  double stay = 0.0;
  // The share of what a token needs that one of the n tokens before it needed, as it was counted,
  // from n = 1 on. Where it is known it corrects the law, which knows of no topics that come back.
  std::vector<double> found_within = {};
  // The experts of all layers, which tokens take as neurons fire. No number: there are none.
  NeuronClass experts = {};
  std::vector<double> experts_found_within = {};

  int64_t n_neurons() const;
  double n_live() const;  // counts neurons that are live at a token, in the mean
  // Returns the share of neurons that are live at a token; of experts, at a token that takes them.
  double live_share(bool is_of_experts) const;
  // Returns the law of neurons that are live for at least one of n sequences, which have nothing to
  // do with each other.
  NeuronLaw of_sequences(int n) const;
};

// How fast a disk reads, by what was measured of it.
class DiskTimes {
 public:
  // Throws Error that ends with the advice of the profile where the storage has no random reads, or
  // no reads in order.
  explicit DiskTimes(const plan::Storage& storage, const std::string& advice = plan::kMeasureAgain);

  // Returns the time that one of many random requests adds, with as many of them under way as were
  // measured at most.
  double request_us(double bytes) const;
  // Returns how far apart neurons may be that one request reads (`weights::gap_between_bundles`).
  uint64_t gap_bytes() const;
  double in_order_us(double bytes) const { return bytes / bytes_per_us_; }

 private:
  std::vector<std::pair<double, double>> requests_;  // bytes and us, ascending
  double bytes_per_us_ = 0.0;
};

// One way to hold a model in the budget, and what computing costs with it.
struct NeuronArrangement {
  plan::FfnForm form = plan::FfnForm::kByNeuron;
  bool has_predictor = false;
  plan::FfnGates gates = plan::FfnGates::kInMemory;
  std::string obstacle = {};  // says why it cannot be chosen; empty: it can

  int64_t n_places = 0;        // counts neurons that have room
  int64_t n_never_pinned = 0;  // counts places among them in which segments take turns
  uint64_t read_bytes = 0;     // the size of a neuron on the disk, in whole pages
  int64_t n_per_read = 1;      // counts the neurons that share these pages
  uint64_t gap_bytes = 0;      // neurons that are at most so far apart share a request
  uint64_t gate_bytes = 0;     // the pages of a neuron with its gate; 0: it is not read by itself
  double turn_bytes = 0.0;     // counts bytes of parts of blocks that are read in each step
  double predicted_per_live = 1.0;  // counts predicted neurons for each live one
  double recall = 1.0;              // the share of live neurons that is predicted

  // Experts, or their gates, that are read when a router asks. 0 bytes: none are.
  double expert_bytes = 0.0;
  int64_t n_expert_places = 0;  // counts those that have room beside those of the layer at work
  double experts_us = 0.0;      // the time of what they compute, a part of `fixed_us`

  double fixed_us = 0.0;      // the time of what is computed whoever is live
  double predicted_us = 0.0;  // the time of a predicted neuron's row of the gate
  double live_us = 0.0;       // the time of a live neuron's row and column
};

// Returns how many places keep the hottest neurons where so many percent of all are meant to.
int64_t n_pinned(const NeuronArrangement& arrangement, int percent);

// What remains to be chosen of an arrangement.
struct NeuronWay {
  int pinned_percent = 0;
  plan::ReadPipeline pipeline = plan::ReadPipeline::kCluster;
  bool reads_twice = false;  // reads the gate, and the rest only of neurons that are live (K30)

  bool operator==(const NeuronWay&) const = default;
};

// Returns what a step costs. REQUIRES: the law has at least as many neurons as there are places,
// unless the form is by output.
plan::NeuronForecast neuron_forecast(const NeuronArrangement& arrangement, const NeuronWay& way,
                                     const NeuronLaw& law, const DiskTimes& disk);

}  // namespace troika::solve
