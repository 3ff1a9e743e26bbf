#include "model/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/os_error.h"
#include "model/rope_divisors.h"

namespace troika::model {
namespace {

// Reads what a norm adds before its root: a negative number would make every result a NaN.
float read_epsilon(const Metadata& metadata, const char* key) {
  const double eps = metadata.number(key);
  if (eps < 0.0 || eps > 1.0) {
    throw Error(
        fmt::format("{}: '{}' is {}, but must lie between 0 and 1. The file is damaged; convert or "
                    "download it again.",
                    metadata.file().path(), metadata.full_key(key), eps));
  }
  return static_cast<float>(eps);
}

}  // namespace

Builder::Builder(const Metadata& metadata) : metadata_(metadata), blueprint_(read_sizes(metadata)) {
  read_frequency_divisors(metadata, &blueprint_.ropes.front());
}

bool Builder::has_layer_tensor(const std::string& part) const {
  return metadata_.has_tensor(layer_name(part) + ".weight");
}

int Builder::add_rope(const Rope& rope) {
  std::vector<Rope>& ropes = blueprint_.ropes;
  const auto at = std::find(ropes.begin(), ropes.end(), rope);
  const auto index = static_cast<int>(at - ropes.begin());
  if (at == ropes.end()) ropes.push_back(rope);
  return index;
}

std::string Builder::layer_name(const std::string& part) const {
  return fmt::format("blk.{}.{}", layer_, part);
}

ValueId Builder::value(const std::string& name, int width, bool per_output) {
  auto& values = blueprint_.values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name != name) continue;
    TROIKA_ASSERT(values[i].width == width && values[i].per_output == per_output);
    return static_cast<ValueId>(i);
  }
  values.push_back({name, width, per_output});
  return static_cast<ValueId>(values.size() - 1);
}

Op& Builder::push(OpKind kind, ValueId output) {
  Op op;
  op.kind = kind;
  op.layer = layer_;
  op.output = output;
  blueprint_.ops.push_back(op);
  return blueprint_.ops.back();
}

WeightId Builder::vector(const std::string& full_name, int length) {
  blueprint_.weights.push_back({full_name, 0, 1, length, 1});
  return static_cast<WeightId>(blueprint_.weights.size() - 1);
}

ValueId Builder::embed(float scale) {
  const ValueId x = value("x", blueprint_.width);
  blueprint_.weights.push_back(
      {"token_embd.weight", 0, blueprint_.n_vocab, blueprint_.width, blueprint_.n_vocab});
  Op& op = push(OpKind::kEmbed, x);
  op.weight = static_cast<WeightId>(blueprint_.weights.size() - 1);
  op.scale = scale;
  return x;
}

ValueId Builder::rms_norm(ValueId input, const std::string& out, const std::string& name) {
  const int width = width_of(input);
  const bool per_output = blueprint_.values[static_cast<size_t>(input)].per_output;
  const ValueId output = value(out, width, per_output);
  const WeightId weight = vector(name + ".weight", width);
  Op& op = push(OpKind::kRmsNorm, output);
  op.inputs[0] = input;
  op.weight = weight;
  op.eps = read_epsilon(metadata_, "attention.layer_norm_rms_epsilon");
  return output;
}

ValueId Builder::layer_norm(ValueId input, const std::string& out, const std::string& name) {
  const int width = width_of(input);
  const bool per_output = blueprint_.values[static_cast<size_t>(input)].per_output;
  const ValueId output = value(out, width, per_output);
  const WeightId weight = vector(name + ".weight", width);
  const WeightId bias =
      metadata_.has_tensor(name + ".bias") ? vector(name + ".bias", width) : kNone;
  Op& op = push(OpKind::kLayerNorm, output);
  op.inputs[0] = input;
  op.weight = weight;
  op.bias = bias;
  op.eps = read_epsilon(metadata_, "attention.layer_norm_epsilon");
  return output;
}

ValueId Builder::linear(ValueId input, const std::string& out, const std::string& name,
                        int n_rows) {
  return linear_rows(input, out, name, 0, n_rows, n_rows);
}

ValueId Builder::linear_rows(ValueId input, const std::string& out, const std::string& name,
                             int first_row, int n_rows, int n_tensor_rows) {
  const bool per_output = blueprint_.values[static_cast<size_t>(input)].per_output;
  const ValueId output = value(out, n_rows, per_output);
  blueprint_.weights.push_back(
      {name + ".weight", first_row, n_rows, width_of(input), n_tensor_rows});
  const auto weight = static_cast<WeightId>(blueprint_.weights.size() - 1);
  WeightId bias = kNone;
  if (metadata_.has_tensor(name + ".bias")) {
    // A bias is one row in the file; the part that belongs to these rows starts at `first_row`.
    blueprint_.weights.push_back({name + ".bias", first_row, 1, n_rows, 1, n_tensor_rows});
    bias = static_cast<WeightId>(blueprint_.weights.size() - 1);
  }
  Op& op = push(OpKind::kLinear, output);
  op.inputs[0] = input;
  op.weight = weight;
  op.bias = bias;
  return output;
}

void Builder::head_norm(ValueId value, int n_heads, const std::string& name) {
  const WeightId weight = vector(name + ".weight", width_of(value) / n_heads);
  Op& op = push(OpKind::kRmsNorm, value);
  op.inputs[0] = value;
  op.weight = weight;
  op.n_heads = n_heads;
  op.eps = read_epsilon(metadata_, "attention.layer_norm_rms_epsilon");
}

ValueId Builder::rope(ValueId input, int n_heads, int index) {
  if (blueprint_.ropes[static_cast<size_t>(index)].n_dims == 0) return input;
  Op& op = push(OpKind::kRope, input);
  op.inputs[0] = input;
  op.n_heads = n_heads;
  op.rope = index;
  return input;
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const AttentionFacts& part) {
  Op& op = push(OpKind::kAttention, value("attention", width_of(q)));
  op.inputs = {q, k, v};
  op.scale = part.scale != 0.0f
                 ? part.scale
                 : static_cast<float>(1.0 / std::sqrt(static_cast<double>(blueprint_.head_dim)));
  op.soft_cap = part.soft_cap;
  op.window = part.window;
  return op.output;
}

ValueId Builder::gate(ValueId gate, ValueId up, Activation activation) {
  Op& op = push(OpKind::kGate, gate);
  op.inputs = {gate, up, kNone};
  op.activation = activation;
  return gate;
}

ValueId Builder::activate(ValueId input, Activation activation) {
  Op& op = push(OpKind::kActivate, input);
  op.inputs[0] = input;
  op.activation = activation;
  return input;
}

void Builder::add_to(ValueId target, ValueId addend) {
  Op& op = push(OpKind::kAdd, target);
  op.inputs = {target, addend, kNone};
}

void Builder::soft_cap(ValueId logits, float cap) {
  if (cap == 0.0f) return;
  Op& op = push(OpKind::kSoftCap, logits);
  op.inputs[0] = logits;
  op.soft_cap = cap;
}

std::array<ValueId, 3> Builder::attention_inputs(ValueId input) {
  const Blueprint& b = blueprint_;
  const int q_width = b.n_heads * b.head_dim;
  const int kv_width = b.kv_width();
  const std::string fused = layer_name("attn_qkv");
  if (!metadata_.has_tensor(fused + ".weight")) {
    const ValueId q = linear(input, "q", layer_name("attn_q"), q_width);
    const ValueId k = linear(input, "k", layer_name("attn_k"), kv_width);
    return {q, k, linear(input, "v", layer_name("attn_v"), kv_width)};
  }
  const int n_rows = q_width + 2 * kv_width;
  const ValueId q = linear_rows(input, "q", fused, 0, q_width, n_rows);
  const ValueId k = linear_rows(input, "k", fused, q_width, kv_width, n_rows);
  return {q, k, linear_rows(input, "v", fused, q_width + kv_width, kv_width, n_rows)};
}

ValueId Builder::attention_block(ValueId input, const AttentionFacts& part) {
  const Blueprint& b = blueprint_;
  const auto [q, k, v] = attention_inputs(input);
  if (has_layer_tensor("attn_q_norm")) {
    head_norm(q, b.n_heads, layer_name("attn_q_norm"));
    head_norm(k, b.n_kv_heads, layer_name("attn_k_norm"));
  }
  rope(q, b.n_heads, part.rope);
  rope(k, b.n_kv_heads, part.rope);
  return linear(attention(q, k, v, part), "projected", layer_name("attn_output"), b.width);
}

ValueId Builder::post_norm(ValueId value, const std::string& part) {
  if (!has_layer_tensor(part)) return value;
  return rms_norm(value, blueprint_.values[static_cast<size_t>(value)].name, layer_name(part));
}

void Builder::rms_norm_blocks(ValueId x, const FfnFacts& ffn, const AttentionOfLayer& attention) {
  for (int layer = 0; layer < blueprint_.n_layers; ++layer) {
    begin_layer(layer);
    const ValueId attended = attention_block(rms_norm(x, "normed", layer_name("attn_norm")),
                                             attention ? attention(layer) : AttentionFacts());
    add_to(x, post_norm(attended, "post_attention_norm"));
    const ValueId h = rms_norm(x, "normed", layer_name("ffn_norm"));
    const ValueId fed =
        blueprint_.n_experts > 0 ? expert_ffn(h, ffn) : gated_ffn(h, ffn.activation);
    add_to(x, post_norm(fed, "post_ffw_norm"));
    note_predictor();
  }
}

void Builder::rms_norm_head(ValueId x) {
  head(rms_norm(select(x), "output_normed", "output_norm"));
}

ValueId Builder::select(ValueId input) {
  layer_ = kNone;
  Op& op = push(OpKind::kSelect, value("selected", width_of(input), true));
  op.inputs[0] = input;
  return op.output;
}

void Builder::head(ValueId input) {
  const bool tied = !metadata_.has_tensor("output.weight");
  blueprint_.logits = linear(input, "logits", tied ? "token_embd" : "output", blueprint_.n_vocab);
  // The bias of the head is its own, even where the matrix is the embedding's.
  if (tied && metadata_.has_tensor("output.bias")) {
    blueprint_.ops.back().bias = vector("output.bias", blueprint_.n_vocab);
  }
}

Blueprint Builder::finish() {
  TROIKA_ASSERT(blueprint_.logits != kNone);
  return std::move(blueprint_);
}

Activation read_activation(const Metadata& metadata, const char* fallback) {
  const std::string name = metadata.text("feed_forward_activation", fallback);
  if (name == "silu") return Activation::kSilu;
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "drelu") return Activation::kDoubleRelu;
  throw Error(fmt::format(
      "{}: '{}' is {}, which is not known. Known are silu, gelu, relu and drelu; use a model with "
      "one of these.",
      metadata.file().path(), metadata.full_key("feed_forward_activation"), troika::quoted(name)));
}

float read_soft_cap(const Metadata& metadata, const char* key, double fallback) {
  const double cap = metadata.number(key, fallback);
  if (cap == 0.0 || (cap >= 1e-3 && cap <= 1e6)) return static_cast<float>(cap);
  throw Error(
      fmt::format("{}: '{}' is {}, but must be 0 for none, or lie between 0.001 and 1000000. The "
                  "file is damaged; convert or download it again.",
                  metadata.file().path(), metadata.full_key(key), cap));
}

}  // namespace troika::model
