// The feed-forward parts of the builder.
#include <fmt/format.h>

#include "base/error.h"
#include "model/builder.h"
#include "model/limits.h"

namespace troika::model {
namespace {

// A predictor is small beside the FFN that it spares.
constexpr uint64_t kMostPredictorRank = 1 << 16;

}  // namespace

ValueId Builder::gated_ffn(ValueId input, Activation activation, int width,
                           const GatedNames& names) {
  const std::string gate_name = layer_name("ffn_gate" + names.suffix);
  const std::string up_name = layer_name("ffn_up" + names.suffix);
  const gguf::TensorInfo* up_tensor = metadata_.file().find_tensor(up_name + ".weight");
  const bool is_fused = !metadata_.has_tensor(gate_name + ".weight") && up_tensor != nullptr &&
                        up_tensor->n_rows() == 2 * static_cast<uint64_t>(width);
  ValueId g, u;
  if (is_fused) {
    g = linear_rows(input, names.gate, up_name, 0, width, 2 * width);
    u = linear_rows(input, names.up, up_name, width, width, 2 * width);
  } else {
    g = linear(input, names.gate, gate_name, width);
    u = linear(input, names.up, up_name, width);
  }
  return linear(gate(g, u, activation), names.out, layer_name("ffn_down" + names.suffix),
                blueprint_.width);
}

ValueId Builder::gated_ffn(ValueId input, Activation activation) {
  if (!has_layer_tensor("ffn_down") && has_layer_tensor("ffn_down_t")) {
    throw Error(
        fmt::format("{}: '{}' stands on its side, a row for each neuron, as files of PowerInfer "
                    "have it, and this program reads a row for each output. Convert the model as "
                    "llama.cpp does, which leaves it upright.",
                    metadata_.file().path(), layer_name("ffn_down_t.weight")));
  }
  return gated_ffn(input, activation, blueprint_.ffn_width,
                   {"", "ffn_gate", "ffn_up", "projected"});
}

ValueId Builder::plain_ffn(ValueId input, Activation activation) {
  const ValueId u = linear(input, "ffn_up", layer_name("ffn_up"), blueprint_.ffn_width);
  return linear(activate(u, activation), "ffn_projected", layer_name("ffn_down"), blueprint_.width);
}

ValueId Builder::route(ValueId input, const FfnFacts& part) {
  const Blueprint& b = blueprint_;
  const ValueId router = linear(input, "router", layer_name("ffn_gate_inp"), b.n_experts);
  blueprint_.ops.back().keeps_float = true;
  const ValueId routes = value("routes", 2 * b.n_experts_used);
  Op& op = push(OpKind::kRoute, routes);
  op.inputs[0] = router;
  op.normalizes_shares = part.normalizes_shares;
  op.scale = part.share_scale;
  return routes;
}

ValueId Builder::expert_linear(ValueId input, ValueId routes, const std::string& out,
                               const std::string& name, int n_rows, int row_length) {
  const Blueprint& b = blueprint_;
  const ValueId output = value(out, b.n_experts_used * n_rows);
  const int n_all_rows = b.n_experts * n_rows;
  blueprint_.weights.push_back({name + ".weight", 0, n_all_rows, row_length, n_all_rows});
  const auto weight = static_cast<WeightId>(b.weights.size() - 1);
  Op& op = push(OpKind::kExpertLinear, output);
  op.inputs = {input, routes, kNone};
  op.weight = weight;
  return output;
}

ValueId Builder::expert_ffn(ValueId input, const FfnFacts& part) {
  const Blueprint& b = blueprint_;
  if (!has_layer_tensor("ffn_gate_exps") && has_layer_tensor("ffn_gate.0")) {
    throw Error(
        fmt::format("{}: each expert has tensors of its own ('{}'), as files from before April "
                    "2024 have it. Convert the model again, or download a newer file, which has "
                    "'{}'.",
                    metadata_.file().path(), layer_name("ffn_gate.0.weight"),
                    layer_name("ffn_gate_exps.weight")));
  }
  const int width = part.expert_width > 0 ? part.expert_width : b.ffn_width;
  const ValueId routes = route(input, part);
  const ValueId g =
      expert_linear(input, routes, "expert_gate", layer_name("ffn_gate_exps"), width, b.width);
  const ValueId u =
      expert_linear(input, routes, "expert_up", layer_name("ffn_up_exps"), width, b.width);
  const ValueId parts = expert_linear(gate(g, u, part.activation), routes, "expert_parts",
                                      layer_name("ffn_down_exps"), b.width, width);
  blueprint_.ops.back().takes_parts = true;
  const ValueId sum = value("projected", b.width);
  push(OpKind::kExpertSum, sum).inputs = {parts, routes, kNone};
  if (has_layer_tensor("ffn_up_shexp")) add_shared_expert(input, sum, part.activation);
  return sum;
}

void Builder::add_shared_expert(ValueId input, ValueId sum, Activation activation) {
  const int width =
      metadata_.integer("expert_shared_feed_forward_length", 0, kMostWidth, blueprint_.ffn_width);
  const ValueId shared = gated_ffn(input, activation, width > 0 ? width : blueprint_.ffn_width,
                                   {"_shexp", "shared_gate", "shared_up", "shared_projected"});
  if (has_layer_tensor("ffn_gate_inp_shexp")) {
    const ValueId share = linear(input, "shared_share", layer_name("ffn_gate_inp_shexp"), 1);
    blueprint_.ops.back().keeps_float = true;
    push(OpKind::kSigmoidGate, shared).inputs = {shared, share, kNone};
  }
  add_to(sum, shared);
}

void Builder::note_predictor() {
  if (!has_layer_tensor("fc1")) return;
  const std::string down_name = layer_name("fc1") + ".weight";
  const uint64_t rank = metadata_.file().find_tensor(down_name)->n_rows();
  if (rank == 0 || rank > kMostPredictorRank) {
    throw Error(
        fmt::format("{}: the predictor '{}' has {} rows, but must have 1 to {}. The file is "
                    "damaged; convert or download it again.",
                    metadata_.file().path(), down_name, rank, kMostPredictorRank));
  }
  const auto n = static_cast<int>(rank);
  const auto add = [&](const std::string& name, int n_rows, int row_length) {
    blueprint_.weights.push_back({name, 0, n_rows, row_length, n_rows});
    return static_cast<WeightId>(blueprint_.weights.size() - 1);
  };
  const WeightId down = add(down_name, n, blueprint_.width);
  const WeightId up = add(layer_name("fc2") + ".weight", blueprint_.ffn_width, n);
  blueprint_.predictors.push_back({layer_, down, up});
  blueprint_.predictor_threshold =
      static_cast<float>(metadata_.file().find_float("powerinfer.sparse_threshold").value_or(0.0));
}

}  // namespace troika::model
