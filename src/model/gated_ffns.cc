#include "model/gated_ffns.h"

namespace troika::model {
namespace {

bool is_plain_product(const Op& op) {
  return op.kind == OpKind::kLinear && op.bias == kNone && !op.keeps_float;
}

// Returns the last product before an op that writes a value.
const Op* producer(const Blueprint& blueprint, size_t before, ValueId value) {
  for (size_t i = before; i-- > 0;) {
    if (blueprint.ops[i].output == value) return &blueprint.ops[i];
  }
  return nullptr;
}

}  // namespace

std::vector<GatedFfn> gated_ffns(const Blueprint& blueprint) {
  std::vector<GatedFfn> ffns;
  const std::vector<Op>& ops = blueprint.ops;
  for (size_t i = 0; i + 2 < ops.size(); ++i) {
    const Op &up = ops[i], &gate = ops[i + 1], &down = ops[i + 2];
    if (!is_plain_product(up) || gate.kind != OpKind::kGate || !is_plain_product(down)) continue;
    if (gate.inputs[1] != up.output || down.inputs[0] != gate.output) continue;
    const Op* const of_gate = producer(blueprint, i, gate.inputs[0]);
    if (of_gate == nullptr || of_gate->kind != OpKind::kLinear) continue;
    ffns.push_back({.layer = up.layer,
                    .gate = of_gate->weight,
                    .up = up.weight,
                    .down = down.weight,
                    .activation = gate.activation});
  }
  return ffns;
}

}  // namespace troika::model
