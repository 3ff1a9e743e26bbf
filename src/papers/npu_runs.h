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
using prepare::NpuStep;

// Returns this program's name of the model with whose published name a row's configuration begins.
// Null: llm.npu's paper has no such model.
const char* known_npu_model(std::string_view configuration);

struct NpuRun {
  std::string model;  // names a known model
  int n_prompt = 0;
  // Says how far the ablation goes; none: all runs on the first lane.
  std::optional<NpuStep> step = NpuStep::kOutOfOrder;
  int prune = 85;
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

class NpuRuns {
 public:
  // `constants` replace those of the phones' files.
  explicit NpuRuns(std::string folder, std::vector<plan::ConstantChoice> constants = {})
      : folder_(std::move(folder)), constants_(std::move(constants)) {}
  const NpuResult& result(const NpuRun& run);

 private:
  std::string folder_;
  std::vector<plan::ConstantChoice> constants_;
  std::map<NpuRun, NpuResult> known_;
};

// Returns a model with the whole system of the paper on the cores and the NPU of the 8 Gen 3;
// nothing is computed.
prepare::Options npu_options(const std::string& folder, const std::string& model);

// The chunk length of the paper.
inline constexpr int kNpuChunk = 256;

}  // namespace troika::papers
