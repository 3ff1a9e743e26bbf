#include "prepare/streaming/neurons/neuron_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {

void check_neuron_blocks(const model::Blueprint& blueprint, const plan::FfnPlan& ffn) {
  if (!ffn.is_by_neuron()) return;
  const char* const name = plan::ffn_form_name(ffn.form);
  const std::vector<model::GatedFfn> ffns = model::neuron_ffns(blueprint);
  if (ffns.empty()) {
    throw UsageError(
        fmt::format("‹ffn› {} is for feed-forward blocks with a gate and without biases, and '{}' "
                    "has none. Use by-output.",
                    name, blueprint.architecture));
  }
  const bool has_dead = model::has_dead_neurons(ffns.front().activation);
  if (ffn.form == plan::FfnForm::kByNeuron && !has_dead && ffn.thresholds.empty()) {
    throw UsageError(
        "No neuron of this model is ever 0, because its activation is not ReLU, so none is skipped "
        "or counted. Its blocks go by neuron with thresholds only, in a ‹plan› as "
        "'troika sparsity MODEL -o PLAN' makes it.");
  }
  if (!ffn.thresholds.empty() && ffn.thresholds.size() != static_cast<size_t>(blueprint.n_layers)) {
    throw UsageError(fmt::format(
        "The plan has thresholds of neurons for {} blocks, and the model has {} blocks. "
        "Make the plan again for this model.",
        ffn.thresholds.size(), blueprint.n_layers));
  }
}

std::vector<model::GatedFfn> neuron_blocks(const model::Blueprint& blueprint,
                                           const plan::Plan& plan) {
  check_neuron_blocks(blueprint, plan.ffn);
  if (!plan.ffn.is_by_neuron()) return {};
  std::vector<model::GatedFfn> ffns = model::neuron_ffns(blueprint);
  for (model::GatedFfn& ffn : ffns) {
    ffn.has_gate_by_neuron =
        plan.ffn.predictor.is_there() && plan.ffn.gates == plan::FfnGates::kInBundles;
  }
  return ffns;
}

std::vector<model::WeightId> neuron_matrices(std::span<const model::GatedFfn> ffns) {
  std::vector<model::WeightId> ids;
  for (const model::GatedFfn& ffn : ffns) {
    if (ffn.expert > 0) continue;  // the first expert's weights are those of the others too
    ids.insert(ids.end(), {ffn.up, ffn.down});
    if (ffn.has_gate_by_neuron) ids.push_back(ffn.gate);
  }
  return ids;
}

size_t neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan) {
  return weights::ResidentNeurons::bytes_for(neuron_blocks(blueprint, plan), weights) +
         plan.ffn.predictor.bytes + hot_neuron_bytes(blueprint, weights, plan);
}

size_t hot_neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                        const plan::Plan& plan) {
  if (!plan.ffn.hot.is_there()) return 0;
  return weights::hot_bytes(neuron_blocks(blueprint, plan), plan.ffn.hot.percent, weights);
}

size_t hot_buffer_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                        const plan::Plan& plan) {
  if (!plan.ffn.hot.is_there()) return 0;
  int n_hot = 0;
  for (const int n :
       weights::hot_counts(neuron_blocks(blueprint, plan), plan.ffn.hot.percent, weights)) {
    n_hot = std::max(n_hot, n);
  }
  constexpr int kOfNeurons = 3;  // the gate, the product beside it, and their activation
  return static_cast<size_t>(kOfNeurons * n_hot + blueprint.width) * sizeof(float) *
         static_cast<size_t>(plan.most_rows()) * static_cast<size_t>(plan.n_buffer_sets());
}

void set_neurons(const plan::Plan& plan, std::unique_ptr<weights::Neurons> neurons,
                 std::unique_ptr<weights::NeuronPredictor> predictor, weights::Store* weights) {
  neurons->set_predictor(std::move(predictor));
  const weights::HotNeurons* const hot = weights->hot();
  for (weights::NeuronFfn& ffn : neurons->ffns()) {
    ffn.keeps_all = plan.ffn.form == plan::FfnForm::kEveryNeuron;
    if (hot != nullptr) ffn.hot = hot->marks(static_cast<size_t>(ffn.index));
    if (plan.ffn.thresholds.empty()) continue;
    ffn.threshold = plan.ffn.thresholds[static_cast<size_t>(ffn.ffn.layer)];
  }
  weights->set_neurons(std::move(neurons));
}

std::string place_neurons(const model::Blueprint& blueprint, const plan::Plan& plan,
                          std::unique_ptr<weights::NeuronPredictor> predictor,
                          const ProgressFunction& progress, weights::Store* weights) {
  const std::vector<model::GatedFfn> ffns = neuron_blocks(blueprint, plan);
  if (ffns.empty()) return "";
  const RealClock clock;
  const double start_us = clock.now_us();
  auto neurons =
      std::make_unique<weights::ResidentNeurons>(ffns, *weights, plan.n_threads(), progress);
  const size_t bytes = neurons->bytes();
  set_neurons(plan, std::move(neurons), std::move(predictor), weights);
  return fmt::format("{:.0f} MB of columns by neuron, {:.2f} s", 1e-6 * static_cast<double>(bytes),
                     1e-6 * (clock.now_us() - start_us));
}

}  // namespace troika::prepare
