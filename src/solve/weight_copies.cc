#include "solve/weight_copies.h"

namespace troika::solve {

std::vector<int> WeightCopies::of(int lane, const lanes::Subgraph& subgraph, plan::Shape shape) {
  using model::OpKind;
  std::vector<int> copies;
  for (const model::Op& op : subgraph.ops) {
    const bool has_matrix =
        op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear || op.kind == OpKind::kEmbed;
    if (!has_matrix) continue;
    const weights::Matrix& matrix = weights_.matrix(op.weight);
    for (const lanes::WeightForm& form :
         lanes::weight_forms(lanes_[static_cast<size_t>(lane)], op, matrix,
                             {prefill_, activations_, shape, subgraph.blueprint->n_experts})) {
      const auto [at, is_new] = numbers_.try_emplace({matrix.data, form.kind, form.n_tokens},
                                                     static_cast<int>(bytes_.size()));
      if (is_new) bytes_.push_back(form.bytes);
      copies.push_back(at->second);
    }
  }
  return copies;
}

}  // namespace troika::solve
