#include "measure/work.h"

#include <algorithm>

namespace troika::measure {

namespace {

// Counts pairs of n tokens behind `past` others, each of which sees at most `most` positions.
double pairs_within(double most, double n, double past) {
  // Counts tokens that see all positions before them, because those are fewer than `most`.
  const double n_growing = std::clamp(most - past, 0.0, n);
  return n_growing * past + n_growing * (n_growing + 1) / 2 + (n - n_growing) * most;
}

double attention_operations(const Work& work, double n, double past) {
  double operations = work.attention_per_pair * pairs_within(past + n, n, past);
  for (const Work::Windowed& w : work.windowed) {
    operations += w.per_pair * pairs_within(w.window, n, past);
  }
  return operations;
}

}  // namespace

double Work::prefill(int n_tokens, int past) const {
  return body_per_token * n_tokens + head_per_output + attention_operations(*this, n_tokens, past);
}

double Work::step(int n_tokens, int past) const {
  return (body_per_token + head_per_output) * n_tokens +
         attention_operations(*this, n_tokens, past);
}

double kv_bytes_per_step(const model::Blueprint& blueprint, const cache::KvShape& shape,
                         double n_positions) {
  double bytes = 0.0;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kAttention) continue;
    const double n_seen = op.window > 0 ? std::min<double>(op.window, n_positions) : n_positions;
    bytes += 2.0 * static_cast<double>(shape.slot_bytes()) * n_seen;
  }
  return bytes;
}

Work count_work(const model::Blueprint& blueprint, const weights::Store& weights) {
  Work work;
  const auto add_attention = [&](int window) {
    const double per_pair = 2.0 * 2.0 * blueprint.n_heads * blueprint.head_dim;
    if (window == 0) {
      work.attention_per_pair += per_pair;
      return;
    }
    auto at = std::find_if(work.windowed.begin(), work.windowed.end(),
                           [&](const Work::Windowed& w) { return w.window == window; });
    if (at == work.windowed.end()) at = work.windowed.insert(at, {window, 0.0});
    at->per_pair += per_pair;
  };
  for (const model::Op& op : blueprint.ops) {
    if (op.kind == model::OpKind::kLinear) {
      const auto& input = blueprint.values[static_cast<size_t>(op.inputs[0])];
      const double operations =
          2.0 * input.width * static_cast<double>(weights.matrix(op.weight).n_rows);
      const bool is_head = blueprint.values[static_cast<size_t>(op.output)].per_output;
      (is_head ? work.head_per_output : work.body_per_token) += operations;
    } else if (op.kind == model::OpKind::kAttention) {
      // Multiplies queries with keys, and weights with values, for each query head.
      add_attention(op.window);
    } else if (op.kind == model::OpKind::kExpertLinear) {
      const weights::Matrix& all = weights.matrix(op.weight);
      work.body_per_token += 2.0 * all.row_length * static_cast<double>(all.n_rows) /
                             blueprint.n_experts * blueprint.n_experts_used;
    }
  }
  return work;
}

}  // namespace troika::measure
