#include "model/mixtures.h"

namespace troika::model {
namespace {

// Returns the op that writes a value last before another one; kNone: none does.
int last_writer(const Blueprint& blueprint, int before, ValueId value) {
  for (int i = before - 1; i >= 0; --i) {
    if (blueprint.ops[static_cast<size_t>(i)].output == value) return i;
  }
  return kNone;
}

bool is_norm(const Op& op) {
  return (op.kind == OpKind::kRmsNorm || op.kind == OpKind::kLayerNorm) && op.n_heads == 0;
}

Mixture begin_mixture(const Blueprint& blueprint, int route) {
  Mixture mixture;
  const Op& op = blueprint.ops[static_cast<size_t>(route)];
  mixture.layer = op.layer;
  mixture.route = route;
  mixture.router = last_writer(blueprint, route, op.inputs[0]);
  if (mixture.router == kNone) return mixture;
  const Op& router = blueprint.ops[static_cast<size_t>(mixture.router)];
  const int norm = last_writer(blueprint, mixture.router, router.inputs[0]);
  if (norm != kNone && is_norm(blueprint.ops[static_cast<size_t>(norm)])) mixture.norm = norm;
  return mixture;
}

}  // namespace

std::vector<Mixture> mixtures(const Blueprint& blueprint) {
  std::vector<Mixture> mixtures;
  for (size_t i = 0; i < blueprint.ops.size(); ++i) {
    const Op& op = blueprint.ops[i];
    if (op.kind == OpKind::kRoute) {
      mixtures.push_back(begin_mixture(blueprint, static_cast<int>(i)));
    } else if (op.kind == OpKind::kExpertLinear && !mixtures.empty()) {
      mixtures.back().products.push_back(op.weight);
    }
  }
  return mixtures;
}

}  // namespace troika::model
