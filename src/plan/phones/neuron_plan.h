// How a virtual phone runs the FFN of a model that does not fit its memory: the neuron plan and the
// hardware plan of PowerInfer-2 (P8, P §5), and the systems that it is compared with (P13).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/firing_law.h"

namespace troika::plan {

// The first six are the steps of Figure 14: each has what the ones before it have.
enum class NeuronSystem : uint8_t {
  kMap,         // llama.cpp: dense, pages of the mapped file come as they are touched
  kPlain,       // predicted neurons alone; rows of each matrix are read by themselves
  kBundle,      // what belongs to one neuron lies together on the disk (P7)
  kCache,       // neurons that were used last stay in memory (P5)
  kPipeline,    // computing and reading overlap by clusters, not by matrices (P6)
  kXpu,         // PowerInfer-2: hot clusters on the NPU, too (P1, P3)
  kFlash,       // LLMFlash: predictor, bundles and a cache; reads end before products begin
  kPowerInfer,  // PowerInfer: the most frequent neurons stay; the others are read by matrices
};
inline constexpr const char* kNeuronSystems[] = {
    "mmap", "plain", "bundle", "cache", "pipeline", "powerinfer-2", "llmflash", "powerinfer"};

const char* neuron_system_name(NeuronSystem system);
// Throws UsageError that lists the names.
NeuronSystem neuron_system_from_name(std::string_view name);

// How reading and computing overlap (Figure 6).
enum class NeuronPipeline : uint8_t { kNone, kMatrix, kCluster };
inline constexpr const char* kNeuronPipelines[] = {"none", "matrix", "cluster"};
// Throws UsageError that lists the names.
NeuronPipeline neuron_pipeline_from_name(std::string_view name);

// Which neurons fire: f(q) = min(most, c · q^-power) over the places q in the order of heat, with a
// mean of live_share; and with this probability a neuron does at a token what it did at the one
// before. Nothing is known of the values.
struct NeuronStatistics {
  double live_share = 0.15;
  double power = 0.7;
  double most = 0.98;
  double overlap = 0.0;
  double continue_share = 0.8;  // of neurons whose gate was computed that need up and down, too

  FiringLaw law() const { return {live_share, power, most}; }
  bool operator==(const NeuronStatistics&) const = default;
};

// Hot neurons of each block, or of each expert: the first ones in the order of heat.
struct HotNeurons {
  int n_sequences = 1;  // the first for one; the last for all above
  int n_hot = 0;        // dense on the matrix lane, kept in memory
  int n_streamed = 0;   // those behind them: dense too, but read anew while attention computes

  bool operator==(const HotNeurons&) const = default;
};

// On a phone: the FFN by neurons, of which some are on the flash (P).
struct NeuronChoice {
  std::optional<NeuronSystem> system;      // none: PowerInfer-2 where memory is limited
  std::optional<double> ffn_share;         // of the FFN in memory, where no limit is given
  std::optional<double> live_share;        // of neurons at a token; none: as the stack says
  std::optional<double> overlap;           // of tokens; likewise
  std::optional<NeuronPipeline> pipeline;  // none: the system's
  std::optional<bool> reads_twice;         // a neuron by two requests; none: what is faster

  bool is_wanted() const { return system || ffn_share; }
};

// Throws UsageError for what makes no sense, or does not fit a limit of memory or a phone that
// computes values.
void check_neuron_choice(const NeuronChoice& choice, bool has_limit, bool has_values);

struct NeuronPlan {
  NeuronSystem system = NeuronSystem::kXpu;
  NeuronStatistics statistics;

  // The neuron plan.
  std::vector<HotNeurons> hot;
  int segment = 512;  // neurons of a unit of work, and of a hot cluster

  // Bytes in memory; the cache has what the budget leaves.
  uint64_t budget_bytes = 0;
  uint64_t other_bytes = 0;  // weights that are no FFN's, keys and values, the program
  uint64_t predictor_bytes = 0;
  uint64_t scale_bytes = 0;  // of FFN weights
  uint64_t cache_bytes = 0;

  // The hardware plan.
  NeuronPipeline pipeline = NeuronPipeline::kCluster;
  int first_read_bytes = 8192;  // of a neuron
  int second_read_bytes = 0;    // up and down, once the gate is known; 0: all at once
  int queue_depth = 16;         // of reads that were asked for
  bool reads_on_large_core = true;

  const HotNeurons& hot_for(int n_sequences) const;
  bool has_bundles() const {
    return system != NeuronSystem::kPlain && system != NeuronSystem::kPowerInfer;
  }
  // Neurons stay by use; otherwise the same ones always.
  bool has_cache() const {
    return system == NeuronSystem::kCache || system == NeuronSystem::kPipeline ||
           system == NeuronSystem::kXpu || system == NeuronSystem::kFlash;
  }
  bool is_dense() const { return system == NeuronSystem::kMap; }

  bool operator==(const NeuronPlan&) const = default;
};

}  // namespace troika::plan
