// Finds the ways in which a model could run in a budget of memory, with what each holds in memory,
// reads, and computes whoever is live (P8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/neuron_times.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "prepare/memory.h"
#include "prepare/open_model.h"
#include "prepare/options.h"
#include "solve/neurons/neuron_costs.h"
#include "weights/neurons/heat.h"
#include "weights/neurons/predictor.h"

namespace troika::tune {

// What is known of a model before arrangements are found. All it points to must outlive it.
struct ArrangementSources {
  const prepare::Options& options;
  const prepare::OpenedModel& model;
  const prepare::MemoryFigures& memory;
  const plan::Profile& profile;
  const solve::DiskTimes& disk;               // the profile's
  const weights::NeuronHeat* heat = nullptr;  // null: nothing is known of it
  std::string about_heat = {};  // why what was counted cannot be used; empty: nobody has counted
  std::optional<weights::NeuronPredictor::Info> predictor = {};  // none: nobody has made one
  // The times of single neurons; none: each is taken to cost its share of a matrix.
  std::optional<measure::NeuronTimes> neuron_times = {};
};

// An arrangement, and what it has in memory.
struct HeldArrangement {
  solve::NeuronArrangement costs;
  uint64_t weight_bytes = 0;
  uint64_t neuron_bytes = 0;
};

// Returns the arrangements that the options allow: by output, by neuron with the exact gate, and
// with the predictor, gates in memory and in bundles. Those that are not possible have an obstacle.
std::vector<HeldArrangement> find_arrangements(const ArrangementSources& sources);

// Returns how neurons fire, those that fire equally often together, and how experts are taken.
// Null: nobody has counted, so that nothing is known of neurons.
solve::NeuronLaw law_of(const weights::NeuronHeat* heat, const model::Blueprint& blueprint);

}  // namespace troika::tune
