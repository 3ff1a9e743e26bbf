#include "plan/neurons/streamed_neurons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/plan.h"

namespace troika::plan {
namespace {

[[noreturn]] void refuse_streamed(const std::string& why) {
  throw UsageError(why + " Make the plan again, or leave 'streamed_neurons' out.");
}

void check_memory_of(const StreamedNeurons& neurons) {
  if (neurons.weight_bytes + neurons.neuron_bytes > neurons.budget_bytes) {
    refuse_streamed(
        fmt::format("Weights of {} bytes and neurons of {} are more than the budget, {}.",
                    neurons.weight_bytes, neurons.neuron_bytes, neurons.budget_bytes));
  }
  if (neurons.n_places > neurons.n_neurons) {
    refuse_streamed(
        fmt::format("There are {} places and {} neurons.", neurons.n_places, neurons.n_neurons));
  }
}

void check_alternatives(const StreamedNeurons& neurons) {
  const auto& all = neurons.alternatives;
  const auto n_chosen = std::count_if(all.begin(), all.end(),
                                      [](const NeuronAlternative& one) { return one.is_chosen; });
  if (!all.empty() && n_chosen != 1) {
    refuse_streamed(
        fmt::format("{} of the alternatives are chosen, and it must be one.", n_chosen));
  }
  for (const NeuronAlternative& one : all) {
    if (one.is_chosen && !one.obstacle.empty()) {
      refuse_streamed(fmt::format("'{}' is chosen, and has an obstacle.", one.name));
    }
    if (one.is_chosen && one.forecast != neurons.forecast) {
      refuse_streamed(fmt::format("'{}' is chosen, and its forecast is not the plan's.", one.name));
    }
  }
}

bool reads_twice(const Plan& plan) {
  return plan.streamed_neurons && plan.streamed_neurons->reads == BundleReads::kTwice;
}

bool has_gates_in_bundles(const Plan& plan) {
  return plan.ffn.predictor.is_there() && plan.ffn.gates == FfnGates::kInBundles;
}

}  // namespace

ReadPipeline read_pipeline_from_name(std::string_view name) {
  if (name == "cluster") return ReadPipeline::kCluster;
  if (name == "matrix") return ReadPipeline::kMatrix;
  throw UsageError(
      fmt::format("'{}' is no pipeline of neurons. There are cluster and matrix.", name));
}

BundleReads bundle_reads_from_name(std::string_view name) {
  if (name == "once") return BundleReads::kOnce;
  if (name == "twice") return BundleReads::kTwice;
  throw UsageError(fmt::format("Neurons are not read '{}'. There are once and twice.", name));
}

std::vector<int> pins_by_tokens(const StreamedNeurons& neurons) {
  std::vector<int> pins = {neurons.pinned_percent};
  for (const NeuronBatch& batch : neurons.batches) {
    if (batch.n_sequences == 1) continue;
    pins.resize(static_cast<size_t>(batch.n_sequences), pins.back());
    pins.back() = batch.pinned_percent;
  }
  return pins;
}

void check_streamed_neurons(const Plan& plan) {
  if (!plan.streamed_neurons) return;
  const StreamedNeurons& neurons = *plan.streamed_neurons;
  if (plan.neurons) {
    refuse_streamed("Neurons are those of a phone ('neurons') or of this machine, and not both.");
  }
  if (neurons.form != plan.ffn.form) {
    refuse_streamed(fmt::format("Neurons were planned for {}, and 'ffn' is {}.",
                                ffn_form_name(neurons.form), ffn_form_name(plan.ffn.form)));
  }
  if (plan.lanes.size() != 1 || plan.lanes.front().kind != "host") {
    refuse_streamed("Neurons are read for one lane of cores, and the plan has others.");
  }
  if (neurons.form == FfnForm::kByOutput && neurons.pinned_percent > 0) {
    refuse_streamed("Nothing is pinned by-output, which reads whole matrices or experts.");
  }
  check_memory_of(neurons);
  check_alternatives(neurons);
}

void check_bundle_reads(const Plan& plan) {
  if (!reads_twice(plan)) return;
  if (!has_gates_in_bundles(plan)) {
    refuse_streamed("Neurons are read twice, and their gates are in memory.");
  }
  if (plan.streamed_neurons->pipeline == ReadPipeline::kMatrix) {
    refuse_streamed(
        "Neurons are read twice, and by matrices nothing is computed between the two reads.");
  }
}

bool read_once_without_gates(Plan* plan) {
  if (!reads_twice(*plan) || has_gates_in_bundles(*plan)) return false;
  plan->streamed_neurons->reads = BundleReads::kOnce;
  return true;
}

}  // namespace troika::plan
