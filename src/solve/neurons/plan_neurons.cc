#include "solve/neurons/plan_neurons.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace troika::solve {
namespace {

std::vector<int> pins_to_try(const NeuronProblem& problem, const NeuronArrangement& arrangement) {
  if (arrangement.form == plan::FfnForm::kByOutput) return {0};
  if (problem.pinned_percent) return {*problem.pinned_percent};
  if (arrangement.n_places >= problem.law.n_neurons()) return {0};
  std::vector<int> pins;
  for (int percent = 0; percent <= 100; percent += kPinStep) pins.push_back(percent);
  return pins;
}

// Says in which numbers of requests a neuron may be read. By matrices it is one: nothing is
// computed between the reads of its gate and of its rest.
std::vector<bool> reads_to_try(const NeuronProblem& problem, const NeuronArrangement& arrangement) {
  const bool may_read_twice =
      arrangement.gate_bytes > 0 &&
      problem.pipeline.value_or(plan::ReadPipeline::kCluster) == plan::ReadPipeline::kCluster;
  if (!may_read_twice) return {false};
  if (problem.reads) return {*problem.reads == plan::BundleReads::kTwice};
  return {false, true};
}

}  // namespace

PricedNeurons best_of_arrangement(const NeuronProblem& problem, const DiskTimes& disk, size_t index,
                                  const NeuronLaw& law) {
  const NeuronArrangement& arrangement = problem.arrangements[index];
  std::optional<PricedNeurons> best;
  for (const int percent : pins_to_try(problem, arrangement)) {
    for (const bool reads_twice : reads_to_try(problem, arrangement)) {
      // By clusters a step never takes longer than by matrices.
      const NeuronWay way = {percent, problem.pipeline.value_or(plan::ReadPipeline::kCluster),
                             reads_twice};
      const PricedNeurons priced = {index, way, neuron_forecast(arrangement, way, law, disk)};
      if (!best || priced.forecast.ms < best->forecast.ms) best = priced;
    }
  }
  return *best;
}

PricedNeurons choose_neurons(const NeuronProblem& problem, const DiskTimes& disk) {
  std::optional<PricedNeurons> best;
  std::set<std::string> obstacles;
  for (size_t i = 0; i < problem.arrangements.size(); ++i) {
    if (const std::string& obstacle = problem.arrangements[i].obstacle; !obstacle.empty()) {
      obstacles.insert(obstacle);
      continue;
    }
    const PricedNeurons priced = best_of_arrangement(problem, disk, i, problem.law);
    if (!best || priced.forecast.ms < best->forecast.ms) best = priced;
  }
  if (best && !(best->forecast.ms <= plan::kMostForecastMs)) {
    throw Error(
        "By what was measured of the disk and of the model's ops a step takes longer than any plan "
        "may say. Measure the profile anew.");
  }
  if (best) return *best;
  throw Error(fmt::format("There is no way to run this model so: {}.", fmt::join(obstacles, "; ")));
}

std::vector<PricedNeurons> neuron_alternatives(const NeuronProblem& problem, const DiskTimes& disk,
                                               const PricedNeurons& best) {
  std::vector<PricedNeurons> all;
  const auto add = [&](size_t index, const NeuronWay& way) {
    for (const PricedNeurons& one : all) {
      if (one.arrangement == index && one.way == way) return;
    }
    all.push_back(
        {index, way, neuron_forecast(problem.arrangements[index], way, problem.law, disk)});
  };
  for (size_t i = 0; i < problem.arrangements.size(); ++i) {
    const NeuronArrangement& arrangement = problem.arrangements[i];
    const NeuronWay own =
        i == best.arrangement ? best.way : best_of_arrangement(problem, disk, i, problem.law).way;
    add(i, own);
    if (arrangement.form == plan::FfnForm::kByOutput) continue;
    if (arrangement.n_places < problem.law.n_neurons() && n_pinned(arrangement, 100) > 0) {
      for (const int percent : {0, 100}) add(i, {percent, own.pipeline, own.reads_twice});
    }
    if (arrangement.gate_bytes > 0 && own.pipeline == plan::ReadPipeline::kCluster) {
      add(i, {own.pinned_percent, own.pipeline, !own.reads_twice});
    }
    if (i != best.arrangement) continue;
    add(i, {own.pinned_percent, plan::ReadPipeline::kCluster, own.reads_twice});
    add(i, {own.pinned_percent, plan::ReadPipeline::kMatrix});
  }
  return all;
}

}  // namespace troika::solve
