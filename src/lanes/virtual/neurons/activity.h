// Draws which neurons fire at a token from a stated law: a virtual phone has no weights and no
// values. Bytes, reads and time follow from the law; they say nothing of any real model's hit rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/phones/neuron_plan.h"

namespace troika::lanes {

// A group is a layer, or an expert of a layer. Each sequence has its own state: with the
// probability `overlap` a neuron does what it did at the token before, otherwise it is drawn anew.
class NeuronActivity {
 public:
  NeuronActivity(const plan::NeuronStatistics& statistics, int n_groups, int n_neurons,
                 uint64_t seed = 1);

  // Takes the next token of a sequence to a group. Returns 1 for each neuron that fires. Valid
  // until the next call for that sequence and group.
  std::span<const uint8_t> advance(int sequence, int group);
  // Returns the experts that the next token of a sequence takes in a layer, ascending: those of the
  // token before, or newly drawn ones, all equally likely. Valid until the next call.
  std::span<const int> route(int sequence, int layer, int n_experts, int n_used);
  // Draws how many of n neurons whose gate was computed need their other rows, too.
  int draw_continued(int n);
  // Draws a number, uniform in [0, 1).
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
  std::vector<uint32_t> thresholds_;  // the shares of `shares_`, times 2^32
  int n_groups_;
  uint64_t state_;
  double skip_ = 0.0;  // 1 / log(overlap): makes the gap between two newly drawn neurons
  std::vector<Sequence> sequences_;
};

}  // namespace troika::lanes
