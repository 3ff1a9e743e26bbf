// Runs shadowAttn, and what it is compared with, on virtual phones. Each run is made once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/trace.h"
#include "measure/simulate.h"
#include "prepare/options.h"

namespace troika::papers {

// Says where attention of prompts runs (section 5). Everything else is the same in all systems.
enum class ShadowSystem : uint8_t {
  kFull,    // C/G-Full: all positions, on the CPU
  kSparse,  // C/G-Sparse: estimate, selection and exact part on the CPU
  kBlocks,  // C/G-Block-Sparse: as kSparse, a block of positions by as many queries at a time
  kNpu,     // NPU-Full: all positions, on the NPU in int8
  kShadow,  // shadowAttn: the estimate on the NPU
  kGpu,     // llm.npu's other attention: all positions, on the GPU (Figure 12)
};
inline constexpr ShadowSystem kShadowSystems[] = {ShadowSystem::kFull, ShadowSystem::kSparse,
                                                  ShadowSystem::kBlocks, ShadowSystem::kNpu,
                                                  ShadowSystem::kShadow};
const char* system_name(ShadowSystem system);

// Names the CPU's cores that are there for the model: one middle core in the paper (section 4).
inline constexpr const char* kOneMiddle = "middle=1";

struct ShadowRun {
  std::string model;  // names a known model
  ShadowSystem system = ShadowSystem::kShadow;
  int n_prompt = 0;
  std::string phone = "8gen3";
  std::string cores = kOneMiddle;
  schedule::HeadStage stage = schedule::HeadStage::kOrdered;
  int n_buckets = 9;
  bool has_equal_shares = false;
  double bus_taken_gb_s = 0.0;

  auto operator<=>(const ShadowRun&) const = default;
};

struct ShadowResult {
  measure::SimulatedRate prefill;
  double step_s = 0.0;              // the time to generate one token behind the prompt
  schedule::PlanningTime planning;  // the real time to plan heads

  double request_s(int n_output) const { return prefill.seconds + n_output * step_s; }
};

// What attention of one block takes over a whole prompt, chunk by chunk (Figure 10, Table 8).
struct KernelResult {
  double seconds = 0.0;
  double joules = 0.0;  // the energy of the phone's lanes meanwhile
};

class ShadowRuns {
 public:
  // `constants` replace those of the phones' files.
  // Throws Error.
  explicit ShadowRuns(std::string phones, std::vector<plan::ConstantChoice> constants = {});

  // Returns the tokens of a chunk. The prompts of the paper's datasets are multiples of it.
  int chunk() const { return chunk_; }
  prepare::Options options_of(const ShadowRun& run) const;
  const ShadowResult& request(const ShadowRun& run);
  // Takes random values, so that all heads have the same scales, and equal shares (5.1).
  const KernelResult& kernel(const ShadowRun& run);
  // Returns the tasks of a prompt in the model's first block, its chunks in order.
  std::vector<TraceEvent> first_block(const ShadowRun& run) const;

 private:
  ShadowResult simulate(const ShadowRun& run) const;
  KernelResult simulate_kernel(const ShadowRun& run) const;

  std::string phones_;
  std::vector<plan::ConstantChoice> constants_;
  // The tokens of a chunk, and of a block of sparse attention (phones/simulated/shadowattn.json).
  int chunk_ = 0, block_ = 0;
  std::map<ShadowRun, ShadowResult> requests_;
  std::map<ShadowRun, KernelResult> kernels_;
};

}  // namespace troika::papers
