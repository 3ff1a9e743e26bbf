// Runs of PowerInfer-2, and of what it is compared with, on virtual phones; each is made once. All
// are an engine and a session as everywhere.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "measure/simulate.h"
#include "prepare/options.h"

namespace troika::papers {

struct PowerRun {
  std::string model;  // a known one
  // None: the FFN is dense, on one processor, with all weights in memory.
  std::optional<plan::NeuronSystem> system = plan::NeuronSystem::kXpu;
  lanes::Processor dense_on = lanes::Processor::kNpu;  // QNN; llama.cpp on the CPU, MLC on the GPU
  std::string phone = "8gen3";
  double ffn_share = 0.5;  // in memory
  double memory_gb = 0.0;  // more than 0: a budget in place of it
  int n_prompt = 0;        // 0: steps
  int n_steps = 10;
  int n_sequences = 1;  // that take steps together, and end one after the other (P9)
  std::optional<double> overlap = std::nullopt;  // none: the stack's
  std::optional<plan::NeuronPipeline> pipeline = std::nullopt;

  auto operator<=>(const PowerRun&) const = default;
};

struct PowerResult {
  measure::SimulatedRate rate;                   // of the prompt, or of the steps
  std::vector<measure::SimulatedRate> together;  // of several sequences: from all of them to one
  lanes::NeuronCounters neurons;
  std::vector<double> miss_rates;  // of each step
  std::optional<plan::NeuronPlan> plan;
  double runtime_gb = 0.0;
  size_t model_bytes = 0;
  double tokens_per_s() const { return rate.tokens_per_s(); }
};

// The one that stands at this share of them, 0 to 1, in ascending order.
double at_share(std::vector<double> values, double share);

class PowerRuns {
 public:
  // `phones` is their folder.
  explicit PowerRuns(std::string phones) : phones_(std::move(phones)) {}
  const PowerResult& result(const PowerRun& run);
  // What ran when in the second step behind a short prompt.
  void trace(const PowerRun& run, Trace* trace);
  prepare::Options options_of(const PowerRun& run) const;

 private:
  PowerResult simulate(const PowerRun& run);

  std::string phones_;
  std::map<PowerRun, PowerResult> known_;
};

}  // namespace troika::papers
