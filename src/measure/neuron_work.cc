#include "measure/neuron_work.h"

#include <set>

#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neurons.h"

namespace troika::measure {
namespace {

using Computed = weights::NeuronSource::Computed;

// What all neurons that a token may need have together.
struct AllNeurons {
  double n = 0.0;
  NotComputed gates, rest;  // of the gates, and of the products before and behind the activation
};

AllNeurons all_neurons(const engine::Engine& engine, const weights::Neurons& neurons) {
  const model::Blueprint& blueprint = engine.blueprint();
  const auto used_share = [&](bool is_expert) {
    return is_expert ? static_cast<double>(blueprint.n_experts_used) / blueprint.n_experts : 1.0;
  };
  AllNeurons all;
  std::set<model::WeightId> gates, rest;
  for (const weights::NeuronFfn& of : neurons.ffns()) {
    all.n += used_share(of.ffn.is_expert()) * of.n_neurons();
    gates.insert(of.ffn.gate);
    rest.insert({of.ffn.up, of.ffn.down});
  }
  for (const model::Op& op : blueprint.ops) {
    const bool is_expert = op.kind == model::OpKind::kExpertLinear;
    if (op.kind != model::OpKind::kLinear && !is_expert) continue;
    const bool is_gate = gates.contains(op.weight);
    if (!is_gate && !rest.contains(op.weight)) continue;
    const weights::Matrix& matrix = engine.weights().matrix(op.weight);
    NotComputed& part = is_gate ? all.gates : all.rest;
    part.bytes += used_share(is_expert) * static_cast<double>(matrix.bytes());
    part.operations += used_share(is_expert) * 2.0 * static_cast<double>(matrix.n_rows) *
                       static_cast<double>(matrix.row_length);
  }
  return all;
}

}  // namespace

Computed computed_by_neuron(const engine::Engine& engine) {
  const weights::Neurons* const neurons = engine.weights().neurons();
  return neurons == nullptr ? Computed() : neurons->computed();
}

NotComputed not_computed_since(const engine::Engine& engine, const Computed& before) {
  const weights::Neurons* const neurons = engine.weights().neurons();
  const Computed now = computed_by_neuron(engine);
  const auto n_neurons = static_cast<double>(now.n_neurons - before.n_neurons);
  if (neurons == nullptr || n_neurons == 0.0) return {};
  const AllNeurons all = all_neurons(engine, *neurons);
  const double n_tokens = n_neurons / all.n;
  // Hot neurons are among all, and another task computes every one of them.
  const weights::HotNeurons* const hot = engine.weights().hot();
  const double n_cold =
      n_neurons - (hot == nullptr ? 0.0 : n_tokens * static_cast<double>(hot->n_neurons()));
  const double dead = (n_cold - static_cast<double>(now.n_live - before.n_live)) / all.n;
  // Without a predictor all gates are computed.
  const auto n_gates = static_cast<double>(now.n_gates - before.n_gates);
  const bool predicts = n_gates > 0.0;
  const double unread = predicts ? (n_cold - n_gates) / all.n : 0.0;
  NotComputed left = {dead * all.rest.bytes + unread * all.gates.bytes,
                      dead * all.rest.operations + unread * all.gates.operations};
  if (predicts) left.bytes -= n_tokens * static_cast<double>(neurons->predictor_bytes());
  return left;
}

}  // namespace troika::measure
