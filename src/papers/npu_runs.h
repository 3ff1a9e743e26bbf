// Runs of llm.npu, and of what it is compared with, on virtual phones; each is made once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/simulate.h"
#include "prepare/options.h"

namespace troika::papers {

using lanes::Processor;
using prepare::NpuStep;

struct NpuModel {
  const char* published;  // as the paper names it
  const char* known;      // as this program does
};
inline constexpr NpuModel kNpuModels[] = {{"Qwen1.5-1.8B", "qwen1.5-1.8b"},
                                          {"Gemma-2B", "gemma-2b"},
                                          {"Phi-2-2.7B", "phi-2"},
                                          {"LlaMA-2-7B", "llama-2-7b"},
                                          {"Mistral-7B", "mistral-7b"}};

struct NpuRun {
  std::string model;  // a known one
  int n_prompt = 0;
  // How far the ablation goes; none: all on the first lane.
  std::optional<NpuStep> step = NpuStep::kOutOfOrder;
  int prune = 85;
  std::string phone = "8gen3";
  std::vector<Processor> processors = {Processor::kCpu, Processor::kNpu};
  std::optional<plan::Order> order = std::nullopt;  // other than that of the step
  bool has_square_shapes = true;
  bool has_memory_limit = true;  // of the NPU (N9)

  auto operator<=>(const NpuRun&) const = default;
};

struct NpuResult {
  measure::SimulatedRate prefill;
  double step_s = 0.0;     // of generating one token behind the prompt
  double npu_busy = 0.0;   // share of the prompt's time; 0 without an NPU
  double npu_share = 1.0;  // of the bytes of products that were to run there, those that do
};

class NpuRuns {
 public:
  // `constants` stand in place of those of the phones' files.
  explicit NpuRuns(std::string folder, std::vector<plan::ConstantChoice> constants = {})
      : folder_(std::move(folder)), constants_(std::move(constants)) {}
  const NpuResult& result(const NpuRun& run);

 private:
  std::string folder_;
  std::vector<plan::ConstantChoice> constants_;
  std::map<NpuRun, NpuResult> known_;
};

// A model with the system of the paper, all of it, on the cores and the NPU of the 8 Gen 3; nothing
// is computed.
prepare::Options npu_options(const std::string& folder, const std::string& model);

// The chunk length of the paper.
inline constexpr int kNpuChunk = 256;

}  // namespace troika::papers
