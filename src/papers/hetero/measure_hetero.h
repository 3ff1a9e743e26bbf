// HeteroLLM's alternatives on this machine (H12): what becomes of prompts whose lengths have no
// graph, on a lane of cores and one that is a device; and generation divided between two cores (H7,
// H8). Each really runs.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"

namespace troika::papers {

struct MeasureHeteroOptions {
  std::string model;
  std::string device = "openvino:CPU";  // the second lane, without its cores
  std::vector<int> prompts = {135, 256, 300, 525, 600, 1000};
  int n_steps = 32;
  int rounds = 3;
  ProgressFunction progress;
};

// Medians over the rounds. Each system runs in turn with the lane of one core, which its times are
// divided by: what else the machine does meets both.
struct HeteroSystemTimes {
  std::string name;
  std::string how;                   // for people
  std::vector<double> ms;            // of each prompt, its graphs among them
  std::vector<double> graphs_ms;     // of them, before anything could run
  std::vector<double> of_reference;  // over one core in the same round
  bool is_single_lane = false;       // products are on one of the two lanes alone

  double ratio(size_t prompt) const { return of_reference[prompt]; }
};

struct HeteroStepRate {
  std::string name;
  double tokens_per_s = 0.0;
  double of_reference = 0.0;  // times as fast as one core in the same round
};

struct HeteroMeasurement {
  MeasureHeteroOptions options;
  std::string lanes;  // "0;openvino:CPU@1"
  std::vector<HeteroSystemTimes> systems;
  std::vector<HeteroStepRate> steps;
  std::string cuts;  // of the plan that the solver found, for people

  // Throws Error for a name that is not there.
  const HeteroSystemTimes& system(const std::string& name) const;
  // How many times as fast as another the plan of the solver computes a prompt.
  double gain_over(const std::string& name, size_t prompt) const;
  // Returns the gain over whichever lane alone is faster.
  double gain_over_one_lane(size_t prompt) const;
};

// The name of the solver's plan.
inline constexpr const char* kTensorLevel = "tensor-level";

// Throws Error where two cores or the device are missing.
HeteroMeasurement measure_hetero(const MeasureHeteroOptions& options);

}  // namespace troika::papers
