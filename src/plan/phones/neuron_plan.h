// Says how a virtual phone runs the FFN of a model that does not fit its memory: the neuron plan
// and the hardware plan of PowerInfer-2 (P8, P §5), and the systems that it is compared with (P13).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/neurons/firing_law.h"

namespace troika::plan {

// kPlain to kXpu are the five stages of Figure 14; each has what the ones before it have.
enum class NeuronSystem : uint8_t {
  kMap,         // llama.cpp: dense; pages of the mapped file come as they are touched
  kPlain,       // computes predicted neurons alone; rows of each matrix are read by themselves
  kBundle,      // keeps what belongs to one neuron together on the disk (P7)
  kCache,       // keeps in memory the neurons that were used last (P5)
  kPipeline,    // overlaps computing and reading by clusters, not by matrices (P6)
  kXpu,         // PowerInfer-2: runs hot clusters on the NPU, too (P1, P3)
  kFlash,       // LLMFlash: predictor, bundles and a cache; reads end before products begin
  kPowerInfer,  // PowerInfer: the most frequent neurons stay; the others are read by matrices
};
inline constexpr const char* kNeuronSystems[] = {
    "mmap", "plain", "bundle", "cache", "pipeline", "powerinfer-2", "llmflash", "powerinfer"};

const char* neuron_system_name(NeuronSystem system);
// Throws UsageError that lists the names.
NeuronSystem neuron_system_from_name(std::string_view name);

// Says how reading and computing overlap (Figure 6).
enum class NeuronPipeline : uint8_t { kNone, kMatrix, kCluster };
inline constexpr const char* kNeuronPipelines[] = {"none", "matrix", "cluster"};
// Throws UsageError that lists the names.
NeuronPipeline neuron_pipeline_from_name(std::string_view name);

// Says which neurons fire: f(q) = min(most, c · q^-power) over the places q in the order of heat,
// with a mean of live_share. With the probability `overlap` a neuron does at a token what it did at
// the one before. Nothing is known of the values.
struct NeuronStatistics {
  double live_share = 0.15;
  double power = 0.7;
  double most = 0.98;
  double overlap = 0.0;
  // The share of neurons whose gate was computed that need their up and down parts, too.
  double continue_share = 0.8;

  FiringLaw law() const { return {live_share, power, most}; }
  bool operator==(const NeuronStatistics&) const = default;
};

// Counts the hot neurons of each block, or of each expert: the first ones in the order of heat.
struct HotNeurons {
  // The number of sequences that this entry is for. The last entry is for all larger numbers too.
  int n_sequences = 1;
  int n_hot = 0;  // counts neurons that the matrix lane computes densely, from memory
  // Counts the neurons behind the hot ones, which are dense too, but read anew while attention
  // computes.
  int n_streamed = 0;

  bool operator==(const HotNeurons&) const = default;
};

// Says what is asked of a phone that runs the FFN by neurons, of which some are on the flash (P).
struct NeuronChoice {
  std::optional<NeuronSystem> system;  // none: PowerInfer-2 where memory is limited
  // The share of the FFN that is in memory, where no limit of memory is given.
  std::optional<double> ffn_share;
  // The share of neurons that fire at a token; none: the stack's.
  std::optional<double> live_share;
  // The probability that a neuron does what it did at the token before; none: the stack's.
  std::optional<double> overlap;
  std::optional<NeuronPipeline> pipeline;  // none: the system's own
  // Reads a neuron by two requests; none: whatever is faster.
  std::optional<bool> reads_twice;

  bool is_wanted() const { return system || ffn_share; }
};

// Throws UsageError for choices that make no sense, or that do not fit a limit of memory or a phone
// that computes values.
void check_neuron_choice(const NeuronChoice& choice, bool has_limit, bool has_values);

struct NeuronPlan {
  NeuronSystem system = NeuronSystem::kXpu;
  NeuronStatistics statistics;

  // The following is the neuron plan: which neurons are hot, and how work is divided.
  std::vector<HotNeurons> hot;
  int segment = 512;  // counts neurons of a unit of work, and of a hot cluster

  // The following counts bytes in memory. The cache has what the budget leaves.
  uint64_t budget_bytes = 0;
  // Holds weights that are no FFN's, keys and values, and the program.
  uint64_t other_bytes = 0;
  uint64_t predictor_bytes = 0;
  uint64_t scale_bytes = 0;  // holds the scales of FFN weights
  uint64_t cache_bytes = 0;

  // The following is the hardware plan: how neurons are read and computed.
  NeuronPipeline pipeline = NeuronPipeline::kCluster;
  int first_read_bytes = 8192;  // the bytes of a neuron that are read first
  // Reads up and down parts once the gate is known; 0: all is read at once.
  int second_read_bytes = 0;
  int queue_depth = 16;  // counts reads that were asked for and have not ended
  bool reads_on_large_core = true;

  const HotNeurons& hot_for(int n_sequences) const;
  bool has_bundles() const {
    return system != NeuronSystem::kPlain && system != NeuronSystem::kPowerInfer;
  }
  // Says that neurons stay by use; otherwise the same ones stay always.
  bool has_cache() const {
    return system == NeuronSystem::kCache || system == NeuronSystem::kPipeline ||
           system == NeuronSystem::kXpu || system == NeuronSystem::kFlash;
  }
  bool is_dense() const { return system == NeuronSystem::kMap; }

  bool operator==(const NeuronPlan&) const = default;
};

}  // namespace troika::plan
