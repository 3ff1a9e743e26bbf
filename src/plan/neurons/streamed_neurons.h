// The neuron plan and the hardware plan of this machine (P8, P §5): how steps compute feed-forward
// blocks where memory has no room for all neurons, what that was predicted to cost, and what else
// was thought of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/neurons/ffn.h"

namespace troika::plan {

// Says what is computed while reads of neurons are under way (P6: 4.3, Figure 6).
enum class ReadPipeline : uint8_t {
  kCluster,  // computes each segment of neurons as soon as its own reads have ended
  kMatrix,   // computes segments without reads at once, the others when all reads have ended
};
inline constexpr const char* kReadPipelines[] = {"cluster", "matrix"};
// Throws UsageError that lists the names.
ReadPipeline read_pipeline_from_name(std::string_view name);

// Says in how many requests a step reads a neuron whose gate lies on the disk (P7, K30).
enum class BundleReads : uint8_t {
  kOnce,   // in one
  kTwice,  // its gate, and then the rest if the gate fires
};
inline constexpr const char* kBundleReads[] = {"once", "twice"};
// Throws UsageError that lists the names.
BundleReads bundle_reads_from_name(std::string_view name);

// Limits the times that a plan may forecast: thirty years.
inline constexpr double kMostForecastMs = 1e12;

// What a token costs, as the planner predicts it.
struct NeuronForecast {
  double ms = 0.0;
  double compute_ms = 0.0;  // the time of computing alone
  double read_ms = 0.0;     // the time of reading alone
  double n_reads = 0.0;     // counts requests of neurons
  double read_bytes = 0.0;  // neurons, parts of blocks that take turns, experts or their gates
  double hit_share = 1.0;   // the share of wanted neurons in memory; by output, of experts

  bool operator==(const NeuronForecast&) const = default;
};

// One way that the planner thought of.
struct NeuronAlternative {
  std::string name;
  NeuronForecast forecast;
  bool is_chosen = false;
  std::string obstacle = {};  // says why it could not be chosen; empty: it was slower

  bool operator==(const NeuronAlternative&) const = default;
};

// What neurons do in steps of several sequences.
struct NeuronBatch {
  int n_sequences = 1;
  double live_share = 0.0;       // the share of neurons that are live for at least one of them
  int64_t n_hot = 0;             // counts neurons that are live in at least every second step
  int pinned_percent = 0;        // the percentage of places that such steps pin
  NeuronForecast forecast = {};  // of a step

  bool operator==(const NeuronBatch&) const = default;
};

struct StreamedNeurons {
  // Is the form of the plan's FFN. by-output reads them whole.
  FfnForm form = FfnForm::kByNeuron;
  std::string reason;

  // The following counts say what lies in memory under the budget that was planned for.
  uint64_t budget_bytes = 0;
  uint64_t weight_bytes = 0;  // weights that are not read by neuron
  uint64_t neuron_bytes = 0;  // places of neurons, their tables and a predictor
  int64_t n_neurons = 0;      // counts those of the model
  int64_t n_places = 0;       // counts neurons that have room

  // The following says what is known of neurons. All is 0 where nobody has counted.
  int64_t n_counted_tokens = 0;
  // The probability that a neuron does what it did at the token before, beyond what its frequency
  // explains.
  double stay = 0.0;
  std::vector<NeuronBatch> batches;

  // The following is the hardware plan: how neurons are held and read.
  ReadPipeline pipeline = ReadPipeline::kCluster;
  int pinned_percent = 0;   // the percentage of places that the hottest have in steps of a sequence
  uint64_t read_bytes = 0;  // the size of a neuron in whole pages; 0: none is read
  BundleReads reads = BundleReads::kOnce;
  // Neurons that lie at most so far apart are read together; none: it is measured at the start.
  std::optional<uint64_t> gap_bytes = std::nullopt;

  NeuronForecast forecast;
  std::vector<NeuronAlternative> alternatives;
  double planning_ms = 0.0;  // the time that planning took, without measurements

  bool operator==(const StreamedNeurons&) const = default;
};

// Returns the percentages of places that the hottest neurons have, by the number of tokens in a
// step: the first is for one token, the last for more (P4).
std::vector<int> pins_by_tokens(const StreamedNeurons& neurons);
// Throws UsageError where the plan's parts contradict each other, but for its reads of gates.
void check_streamed_neurons(const Plan& plan);
// Throws UsageError where neurons cannot be read in so many requests.
void check_bundle_reads(const Plan& plan);
// Lets neurons be read once where their gates are in memory. Says whether that changed the plan.
bool read_once_without_gates(Plan* plan);

}  // namespace troika::plan
