#include "machines/phone_neurons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace troika::machines {

lanes::NeuronShape neuron_shape(const model::Blueprint& blueprint, const weights::Store& weights,
                                double predictor_rank_share) {
  lanes::NeuronShape shape;
  shape.n_layers = blueprint.n_layers;
  shape.n_experts = std::max(1, blueprint.n_experts);
  shape.n_experts_used = std::max(1, blueprint.n_experts_used);
  shape.width = blueprint.width;
  shape.model_bytes = weights.total_bytes();
  uint64_t n_bytes = 0, n_weights = 0;  // of all matrices that were counted: their types may differ
  const auto count = [&](std::string_view name, int block, int n_neurons) {
    const auto fits = [&](const model::Op& op) {
      const bool is_product =
          op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear;
      if (!is_product || op.layer != block) return false;
      const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
      const std::string_view known = schedule::op_name(blueprint, op);
      if (known != name && known != std::string(name) + "_exps") return false;
      const int n_rows = weight.n_rows / shape.n_experts;
      const int n = name == "ffn_down" ? weight.row_length : n_rows;
      if (n_neurons > 0 && n != n_neurons) return false;
      shape.n_neurons = n;
      const weights::Matrix& matrix = weights.matrix(op.weight);
      n_bytes += matrix.bytes();
      n_weights += static_cast<uint64_t>(matrix.n_rows) * static_cast<uint64_t>(matrix.row_length);
      return true;
    };
    return std::count_if(blueprint.ops.begin(), blueprint.ops.end(), fits);
  };
  const bool has_up = count("ffn_up", 0, 0) == 1;
  const int n_neurons = shape.n_neurons;
  n_bytes = n_weights = 0;
  bool is_alike = has_up;
  for (int block = 0; block < shape.n_layers && is_alike; ++block) {
    for (const char* matrix : {"ffn_gate", "ffn_up", "ffn_down"}) {
      is_alike = is_alike && count(matrix, block, n_neurons) == 1;
    }
  }
  if (!is_alike) {
    throw UsageError(
        "‹neurons› goes by the rows of gate, up and down, which must have one size in all blocks "
        "and stand for themselves; this model's FFN is of another kind.");
  }
  shape.weight_bytes = static_cast<double>(n_bytes) / static_cast<double>(n_weights);
  shape.rank = static_cast<int>(predictor_rank_share * shape.width);
  return shape;
}

NeuronLanes neuron_lanes(const plan::Plan& plan) {
  NeuronLanes lanes{-1, -1, static_cast<int>(plan.lanes.size())};
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].kind == "cpu") lanes.cpu = static_cast<int>(lane);
    if (plan.lanes[lane].kind == "npu") lanes.npu = static_cast<int>(lane);
  }
  if (lanes.cpu < 0) {
    throw UsageError("‹neurons› needs the CPU, which computes cold ones: ‹lanes› \"cpu;npu\".");
  }
  return lanes;
}

}  // namespace troika::machines
