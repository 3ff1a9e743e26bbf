// Measures llm.npu on this machine (N12): the ablation stage by stage, orders of chunks, and what
// outliers cost. Each setting really runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "lanes/shadow_area.h"
#include "papers/npu/reproduce_npu.h"
#include "prepare/options.h"

namespace troika::papers {

struct MeasureNpuOptions {
  std::string model;
  std::string plan;  // names the plan of a calibration; empty: limits are taken from seeded tokens
  int n_prompt = 1024;
  int chunk = 128;
  int rounds = 5;
  prepare::ShadowRows shadow_rows = prepare::ShadowRows::kAll;
  bool has_cache = true;
  ProgressFunction progress;
};

// The medians over the rounds, in which every setting runs once.
struct MeasuredRun {
  std::string name;
  double ms = 0.0;        // the prompt's time
  double build_ms = 0.0;  // the part of `ms` before anything could run
  // The share of time in which lane 0, the matrix lane, waits; none where there is one lane.
  std::optional<double> matrix_idle_share;
  lanes::ShadowCounters counters;  // counts the shadow tasks of one prompt
};

struct NpuMeasurement {
  MeasureNpuOptions options;
  std::string calibration;  // says where limits come from
  double outliers_per_token = 0.0;
  std::vector<int> cores;  // the cores of the two lanes
  // Lane 0 multiplies, lane 1 does the rest. The runs of plain CPU and of one lane have both cores.
  std::vector<MeasuredRun> ablation;  // plain CPU, naive, chunk, outlier, out-of-order
  std::vector<MeasuredRun> orders;    // in-order, lock-step, out-of-order
  std::vector<MeasuredRun> pruned;    // 0, 85, 100 %
  std::vector<MeasuredRun> one_lane;  // plain int8, outliers pruned 100 %, 85 %
  // The scheduler's decisions, out of order.
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // the mean time
  double longest_decision_us = 0.0;

  // Returns how much shorter out of order is than in order, as a share.
  double latency_gain() const;
};

// Throws Error where two cores are missing or the model cannot be measured.
NpuMeasurement measure_npu(const MeasureNpuOptions& options);

// Puts the figures of this machine beside the published ones.
void fill_measured(const NpuMeasurement& measurement, TestReport* report);

}  // namespace troika::papers
