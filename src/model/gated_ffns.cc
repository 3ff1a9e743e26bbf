#include "model/gated_ffns.h"

namespace troika::model {
namespace {

bool is_plain_product(const Op& op, OpKind kind) {
  return op.kind == kind && op.bias == kNone && !op.keeps_float;
}

// Returns the last op before another one that writes a value.
const Op* producer(const Blueprint& blueprint, size_t before, ValueId value) {
  for (size_t i = before; i-- > 0;) {
    if (blueprint.ops[i].output == value) return &blueprint.ops[i];
  }
  return nullptr;
}

// Returns the blocks whose products are ops of this kind.
std::vector<GatedFfn> ffns_of(const Blueprint& blueprint, OpKind product) {
  std::vector<GatedFfn> ffns;
  const std::vector<Op>& ops = blueprint.ops;
  for (size_t i = 0; i + 2 < ops.size(); ++i) {
    const Op &up = ops[i], &gate = ops[i + 1], &down = ops[i + 2];
    if (!is_plain_product(up, product) || gate.kind != OpKind::kGate ||
        !is_plain_product(down, product)) {
      continue;
    }
    if (gate.inputs[1] != up.output || down.inputs[0] != gate.output) continue;
    const Op* const of_gate = producer(blueprint, i, gate.inputs[0]);
    if (of_gate == nullptr || !is_plain_product(*of_gate, product)) continue;
    ffns.push_back({.layer = up.layer,
                    .gate = of_gate->weight,
                    .up = up.weight,
                    .down = down.weight,
                    .activation = gate.activation});
  }
  return ffns;
}

}  // namespace

std::vector<GatedFfn> gated_ffns(const Blueprint& blueprint) {
  return ffns_of(blueprint, OpKind::kLinear);
}

std::vector<GatedFfn> expert_ffns(const Blueprint& blueprint) {
  std::vector<GatedFfn> experts;
  for (GatedFfn ffn : ffns_of(blueprint, OpKind::kExpertLinear)) {
    ffn.n_experts = blueprint.n_experts;
    for (ffn.expert = 0; ffn.expert < ffn.n_experts; ++ffn.expert) experts.push_back(ffn);
  }
  return experts;
}

std::vector<GatedFfn> neuron_ffns(const Blueprint& blueprint) {
  std::vector<GatedFfn> ffns = gated_ffns(blueprint);
  return ffns.empty() ? expert_ffns(blueprint) : ffns;
}

}  // namespace troika::model
