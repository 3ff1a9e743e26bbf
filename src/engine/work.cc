#include "engine/work.h"

namespace troika::engine {

double Work::prefill(int n_tokens, int past) const {
  const double n = n_tokens;
  const double pairs = n * past + n * (n + 1) / 2;
  return body_per_token * n + head_per_output + attention_per_pair * pairs;
}

Work count_work(const model::Blueprint& blueprint, const weights::Store& weights) {
  Work work;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind == model::OpKind::kLinear) {
      const auto& input = blueprint.values[static_cast<size_t>(op.inputs[0])];
      const double operations =
          2.0 * input.width * static_cast<double>(weights.matrix(op.weight).n_rows);
      const bool is_head = blueprint.values[static_cast<size_t>(op.output)].per_output;
      (is_head ? work.head_per_output : work.body_per_token) += operations;
    } else if (op.kind == model::OpKind::kAttention) {
      // q k and weight v, for each query head.
      work.attention_per_pair += 2.0 * 2.0 * blueprint.n_heads * blueprint.head_dim;
    }
  }
  return work;
}

}  // namespace troika::engine
