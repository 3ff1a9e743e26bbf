// Measures HeteroLLM's alternatives on this machine (H12): how prompts run whose lengths have no
// graph, on a lane of cores and one that is a device; and generation divided between two cores (H7,
// H8). Each alternative really runs.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"

namespace troika::papers {

struct MeasureHeteroOptions {
  std::string model;
  std::string device = "openvino:CPU";  // names the second lane, without its cores
  std::vector<int> graphs;  // the token counts for which there are graphs, the smallest first
  std::vector<int> prompts = {135, 256, 300, 525, 600, 1000};
  int n_steps = 32;
  int rounds = 3;
  ProgressFunction progress;
};

// The medians over the rounds. Each system runs in turn with the lane of one core, and its times
// are divided by those of that lane: what else the machine does affects both.
struct HeteroSystemTimes {
  std::string name;
  std::string how;         // says to people how the system works
  std::vector<double> ms;  // the time of each prompt, with its graphs
  // The part of `ms` in which graphs are made, before anything could run.
  std::vector<double> graphs_ms;
  // Each prompt's time over the time of one core in the same round
  std::vector<double> of_reference;
  bool is_single_lane = false;  // says that products are on one of the two lanes alone

  double ratio(size_t prompt) const { return of_reference[prompt]; }
};

struct HeteroStepRate {
  std::string name;
  double tokens_per_s = 0.0;
  double of_reference = 0.0;  // how many times as fast as one core in the same round
  // How many times as fast as one core the same cores read memory, between the steps of both: what
  // dividing a step can give where reading limits it. 0: there was no memory to read.
  double read_gain = 0.0;
  double share_of_read_gain = 0.0;  // of_reference over read_gain, in the same round
};

struct HeteroMeasurement {
  MeasureHeteroOptions options;
  std::string lanes;  // "0;openvino:CPU@1"
  std::vector<HeteroSystemTimes> systems;
  std::vector<HeteroStepRate> steps;
  std::string cuts;  // shows people the cuts of the solver's plan

  // Throws Error for a name that is not there.
  const HeteroSystemTimes& system(const std::string& name) const;
  // Returns how many times as fast as another system the solver's plan computes a prompt.
  double gain_over(const std::string& name, size_t prompt) const;
  // Returns the gain over whichever lane alone is faster.
  double gain_over_one_lane(size_t prompt) const;
};

// Names the solver's plan.
inline constexpr const char* kTensorLevel = "tensor-level";

// Throws Error where two cores or the device are missing. REQUIRES: there are graphs.
HeteroMeasurement measure_hetero(const MeasureHeteroOptions& options);

}  // namespace troika::papers
