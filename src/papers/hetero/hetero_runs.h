// Runs HeteroLLM's systems, and what they are compared with, on a virtual 8 Gen 3. Each run is made
// once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "measure/simulate.h"
#include "prepare/options.h"

namespace troika::papers {

enum class HeteroSystem : uint8_t {
  kCpu,     // llama.cpp
  kGpu,     // PPL-OpenCL
  kLayer,   // Hetero-layer: each product where it is fastest, the rest on the GPU (section 4)
  kTensor,  // Hetero-tensor: as kLayer, with tensors divided between GPU and NPU (section 4.1)
};

// Says what is done with a prompt that has no graph of its own length (section 5.2.2).
enum class OddLengths : uint8_t {
  kPadding,  // takes the next longer graph; Hetero-tensor also divides by tokens
  kPipe,     // takes several graphs one after the other, whose lengths add up
  kPrepare,  // makes a graph for this prompt when it comes
  kChunked,  // takes graphs of one length one after the other, as llm.npu does
  kMargin,   // divides by tokens or pads, by the margin over the next shorter graphs
};

inline constexpr int kChunkedTokens = 256;

struct HeteroRun {
  std::string model;  // names a known model
  HeteroSystem system = HeteroSystem::kTensor;
  int n_prompt = 256;
  bool has_fast_handover = true;  // H8
  OddLengths odd_lengths = OddLengths::kPadding;
  bool has_game = false;  // says that a game draws on the GPU meanwhile (H14)

  auto operator<=>(const HeteroRun&) const = default;
};

struct HeteroResult {
  measure::SimulatedRate prefill;
  double graphs_s = 0.0;  // the time to make graphs for this prompt, which waits for them
  double step_s = 0.0;    // the time to generate one token behind the prompt
  bool decodes_on_gpu_alone = false;
  // The share of the product behind the activation in the time of the prompt's products.
  double down_share = 0.0;

  double prompt_s() const { return prefill.seconds + graphs_s; }
  double prompt_rate() const { return prefill.n_tokens / prompt_s(); }
  double step_rate() const { return 1.0 / step_s; }
};

// Returns the token counts for which there are graphs, the smallest first. `phones` is the folder
// of the virtual phones. Throws Error.
std::vector<int> hetero_lengths(const std::string& phones);
// Returns lengths of graphs whose sum holds n tokens, largest first; the last one may be padded.
plan::LengthCut piped_length(int n, int lane, const std::vector<int>& graphs);

class HeteroRuns {
 public:
  // Throws Error.
  explicit HeteroRuns(std::string phones)
      : phones_(std::move(phones)), graphs_(hetero_lengths(phones_)) {}
  const HeteroResult& result(const HeteroRun& run);

 private:
  // An engine on the phone with one plan. It serves prompts of all lengths that have no graph of
  // their own.
  struct Machine {
    explicit Machine(const prepare::Options& options) : engine(options), session(engine) {}
    engine::Engine engine;
    engine::Session session;
  };
  prepare::Options options_of(const HeteroRun& run) const;
  Machine& machine(const HeteroRun& run);
  HeteroResult simulate(const HeteroRun& run);

  std::string phones_;
  std::vector<int> graphs_;  // the token counts for which there are graphs
  std::map<HeteroRun, std::unique_ptr<Machine>> machines_;
  std::map<HeteroRun, HeteroResult> known_;
};

}  // namespace troika::papers
