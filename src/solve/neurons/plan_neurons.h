// Chooses how a model runs whose neurons are more than memory holds (P8): the form, who predicts,
// where gates are, how many neurons are pinned, and what is computed while neurons are read.
#pragma once

#include <optional>
#include <vector>

#include "solve/neurons/neuron_costs.h"

namespace troika::solve {

// Pins are tried in steps of so many percent.
inline constexpr int kPinStep = 5;

struct NeuronProblem {
  NeuronLaw law;
  std::vector<NeuronArrangement> arrangements;
  // These replace a choice.
  std::optional<int> pinned_percent = std::nullopt;
  std::optional<plan::ReadPipeline> pipeline = std::nullopt;
  std::optional<plan::BundleReads> reads = std::nullopt;
};

// An arrangement, by its number, run in one way.
struct PricedNeurons {
  size_t arrangement = 0;
  NeuronWay way;
  plan::NeuronForecast forecast;
};

// Returns the way that takes the least time of those without an obstacle. Equal ones go by the
// order of arrangements, then fewer pins. Throws Error, with the obstacles, where there is none.
PricedNeurons choose_neurons(const NeuronProblem& problem, const DiskTimes& disk);

// Returns the best way of an arrangement, whether something stands in its way or not.
PricedNeurons best_of_arrangement(const NeuronProblem& problem, const DiskTimes& disk, size_t index,
                                  const NeuronLaw& law);

// Returns what people may want to compare: each arrangement with pins by need, none and all; those
// that can read a neuron in two requests (K30), in one and in two; and `best`, which comes once, by
// matrices.
std::vector<PricedNeurons> neuron_alternatives(const NeuronProblem& problem, const DiskTimes& disk,
                                               const PricedNeurons& best);

}  // namespace troika::solve
