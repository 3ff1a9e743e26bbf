#include "schedule/shared_graphs.h"

namespace troika::schedule {

SharedGraphs count_shared(const model::Blueprint& blueprint, const weights::Store& weights,
                          const plan::Plan& plan) {
  SharedGraphs shared;
  for (const lanes::Subgraph& subgraph : cut_into_subgraphs(blueprint, plan.splits)) {
    if (subgraph.block() != model::kNone) {
      ++shared.n_subgraphs;
      shared.n_static += subgraph.is_dynamic() ? 0 : 1;
    }
    for (const model::Op& op : subgraph.ops) {
      if (op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear) {
        shared.weight_bytes += weights.matrix(op.weight).bytes();
      }
      const model::Value& value = blueprint.values[static_cast<size_t>(op.output)];
      if (value.per_output) continue;
      const size_t bytes =
          sizeof(float) * static_cast<size_t>(value.width) * static_cast<size_t>(plan.chunk());
      (subgraph.is_dynamic() ? shared.dynamic_buffer_bytes : shared.static_buffer_bytes) += bytes;
    }
  }
  return shared;
}

}  // namespace troika::schedule
