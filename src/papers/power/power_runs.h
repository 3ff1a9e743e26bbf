// Runs PowerInfer-2, and what it is compared with, on virtual phones. Each run is made once, with
// an engine and a session as everywhere.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "measure/simulate.h"
#include "papers/given.h"
#include "prepare/options.h"

namespace troika::papers {

struct PowerRun {
  std::string model;  // names a known model
  // None: the FFN is dense, on one processor, with all weights in memory.
  std::optional<plan::NeuronSystem> system = plan::NeuronSystem::kXpu;
  // Stands for QNN; the CPU for llama.cpp, the GPU for MLC
  lanes::Processor dense_on = lanes::Processor::kNpu;
  std::string phone = "8gen3";
  double ffn_share = 0.5;  // the share of the FFN in memory
  double memory_gb = 0.0;  // a budget that replaces ffn_share; 0: none
  int n_prompt = 0;        // 0: steps are timed, not a prompt
  int n_steps = 10;
  // Counts the tokens behind which steps are taken; none: as many as the paper has before
  // generation.
  std::optional<int> n_before = std::nullopt;
  // Counts sequences that take steps together, and end one after the other (P9).
  int n_sequences = 1;
  std::optional<double> overlap = std::nullopt;  // none: the stack's
  std::optional<plan::NeuronPipeline> pipeline = std::nullopt;

  auto operator<=>(const PowerRun&) const = default;
};

struct PowerResult {
  measure::SimulatedRate rate;  // the rate of the prompt, or of the steps
  // The rates of several sequences: from all of them to one.
  std::vector<measure::SimulatedRate> together;
  lanes::NeuronCounters neurons;
  std::vector<double> miss_rates;  // one for each step
  std::optional<plan::NeuronPlan> plan;
  double runtime_gb = 0.0;
  size_t model_bytes = 0;
  double tokens_per_s() const { return rate.tokens_per_s(); }
};

class PowerRuns {
 public:
  // `phones` is the folder of the virtual phones. Throws Error.
  explicit PowerRuns(std::string phones);
  const PowerResult& result(const PowerRun& run);
  // Records what ran when in the second step behind a short prompt.
  void trace(const PowerRun& run, Trace* trace);
  prepare::Options options_of(const PowerRun& run) const;

 private:
  PowerResult simulate(const PowerRun& run);
  int before(const PowerRun& run) const { return run.n_before.value_or(n_before_); }
  std::optional<double> live_share(const std::string& model) const;

  std::string phones_;
  Given given_;
  int n_before_ = 0;  // the tokens of the text before generation
  std::map<PowerRun, PowerResult> known_;
};

}  // namespace troika::papers
