// Which neurons fire at a token, drawn from a stated law: there are no weights and no values on a
// virtual phone. What follows from it is bytes, reads and time at that law, and no hit rate of any
// real model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/phones/neuron_plan.h"

namespace troika::lanes {

// Groups are layers, or experts of layers; each sequence has neurons of its own, which do at a
// token what they did at the one before with the probability `overlap`, and are drawn anew
// otherwise.
class NeuronActivity {
 public:
  NeuronActivity(const plan::NeuronStatistics& statistics, int n_groups, int n_neurons,
                 uint64_t seed = 1);

  // The next token of a sequence reaches a group. Returns 1 for each neuron that fires. Valid until
  // the next call for that sequence and group.
  std::span<const uint8_t> advance(int sequence, int group);
  // Experts that the next token of a sequence takes in a layer: as at the token before, or drawn
  // anew, all equally likely. Ascending; valid until the next call.
  std::span<const int> route(int sequence, int layer, int n_experts, int n_used);
  // How many of n neurons whose gate was computed need more than it.
  int draw_continued(int n);
  // Uniform in [0, 1).
  double draw();

  int n_neurons() const { return static_cast<int>(shares_.size()); }
  const std::vector<double>& shares() const { return shares_; }

 private:
  struct Sequence {
    std::vector<uint8_t> fires;     // (n_groups, n_neurons)
    std::vector<uint8_t> is_known;  // (n_groups)
    std::vector<std::vector<int>> routes;
  };
  Sequence& sequence_of(int index);
  uint64_t bits();

  plan::NeuronStatistics statistics_;
  std::vector<double> shares_;
  std::vector<uint32_t> thresholds_;  // the same, of 2^32
  int n_groups_;
  uint64_t state_;
  double skip_ = 0.0;  // 1 / log(overlap): the gap between neurons that are drawn anew
  std::vector<Sequence> sequences_;
};

}  // namespace troika::lanes
