// Runs llm.npu, and what it is compared with, on virtual phones. Each run is made once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/simulate.h"
#include "prepare/options.h"

namespace troika::papers {

using lanes::Processor;
using prepare::NpuStage;

// Returns this program's name of the model with whose published name a row's configuration begins.
// Null: llm.npu's paper has no such model.
const char* known_npu_model(std::string_view configuration);

struct NpuRun {
  std::string model;  // names a known model
  int n_prompt = 0;
  // Says how far the ablation goes; none: all runs on the first lane.
  std::optional<NpuStage> stage = NpuStage::kOutOfOrder;
  std::optional<int> prune = std::nullopt;  // the percentage of blocks; none: the paper's (N6)
  std::string phone = "8gen3";
  std::vector<Processor> processors = {Processor::kCpu, Processor::kNpu};
  std::optional<plan::Order> order = std::nullopt;  // none: the order of the step
  bool has_square_shapes = true;
  bool has_memory_limit = true;  // says that the NPU's memory is limited (N9)

  auto operator<=>(const NpuRun&) const = default;
};

struct NpuResult {
  measure::SimulatedRate prefill;
  double step_s = 0.0;    // the time to generate one token behind the prompt
  double npu_busy = 0.0;  // the share of the prompt's time; 0 without an NPU
  // The share that the NPU runs of the bytes of products that were to run there.
  double npu_share = 1.0;
};

// What runs are given: phones/simulated/llm.npu.json says where each number is from.
struct NpuGiven {
  int chunk = 0;           // the tokens of a chunk
  int prune = 0;           // the percentage of blocks whose outliers are ignored
  double hot_share = 0.0;  // the share of channels whose float rows stay in memory
};
// Throws Error.
NpuGiven read_npu_given(const std::string& folder);

class NpuRuns {
 public:
  // `constants` replace those of the phones' files.
  // Throws Error.
  explicit NpuRuns(std::string folder, std::vector<plan::ConstantChoice> constants = {});
  const NpuResult& result(const NpuRun& run);

 private:
  int chunk_of(const NpuRun& run) const;

  std::string folder_;
  NpuGiven given_;
  std::vector<plan::ConstantChoice> constants_;
  std::map<NpuRun, NpuResult> known_;
};

// Returns a model with the whole system of the paper on the cores and the NPU of the 8 Gen 3;
// nothing is computed.
prepare::Options npu_options(const std::string& folder, const std::string& model);

}  // namespace troika::papers
