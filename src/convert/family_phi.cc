// Phi 2, and Phi 3 and its successors, whose matrices are fused.
#include <fmt/format.h>

#include <cmath>

#include "convert/families.h"
#include "convert/plan_builder.h"
#include "model/limits.h"

namespace troika::convert {
namespace {

void norm_with_bias(PlanBuilder& b, const std::string& name, const std::string& source) {
  b.vector(name + ".weight", source + ".weight", b.sizes().width);
  b.vector(name + ".bias", source + ".bias", b.sizes().width);
}

void add_divisors(PlanBuilder& b, ConversionPlan* plan, const Json& scaling, const char* key,
                  const char* name, uint32_t n_pairs) {
  const Json* values = member(scaling, key);
  if (values == nullptr || !values->is_array() || values->size() != n_pairs) {
    b.config().fail(fmt::format("'{}' of the rotation does not hold {} numbers", key, n_pairs));
  }
  PlannedTensor tensor;
  tensor.name = name;
  tensor.shape = {n_pairs};
  for (const Json& value : *values) {
    const double number = value.is_number() ? value.get<double>() : 0.0;
    if (!(number >= 1e-6 && number <= 1e9)) {
      b.config().fail(fmt::format("'{}' of the rotation holds what is no number above 0", key));
    }
    tensor.values.push_back(static_cast<float>(number));
  }
  plan->tensors.push_back(std::move(tensor));
}

// Sets two lists of divisors, for short and for long texts.
void set_long_rope(PlanBuilder& b, ConversionPlan* plan, RopeFacts rope,
                   uint32_t original_context) {
  const auto n_rotated = static_cast<uint32_t>(rope.rotated_share * b.sizes().head_dim);
  const Json scaling = rope.scaling;
  rope.type = "default";
  b.set_rope(rope);
  if (original_context < 2) {
    b.config().fail("'original_max_position_embeddings' is 1, by whose logarithm is divided");
  }
  const double scale = double{1} * b.sizes().context / original_context;
  const double usual =
      scale > 1.0 ? std::sqrt(1.0 + std::log(scale) / std::log(original_context)) : 1.0;
  const Config inner(scaling, b.config().path());
  b.set("rope.scaling.attn_factor",
        static_cast<float>(inner.number("attention_factor", 1e-3, 1e3, usual)));
  add_divisors(b, plan, scaling, "long_factor", "rope_factors_long.weight", n_rotated / 2);
  add_divisors(b, plan, scaling, "short_factor", "rope_factors_short.weight", n_rotated / 2);
}

}  // namespace

void plan_phi2(const Config& config, ConversionPlan* plan) {
  PlanBuilder b(config, plan, "phi2");
  const Sizes& s = b.sizes();
  b.check_activation({"gelu_new", "gelu_pytorch_tanh"});
  if (config.flag("qk_layernorm", false)) config.fail("its heads have norms ('qk_layernorm')");
  b.set_sizes();
  b.set("attention.layer_norm_epsilon",
        static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5)));
  RopeFacts rope = read_rope(config);
  const bool is_said = member(config.json(), "partial_rotary_factor") != nullptr ||
                       member(rope.scaling, "partial_rotary_factor") != nullptr;
  if (!is_said) rope.rotated_share = 0.5;
  b.set_rope(rope);
  constexpr LinearTraits kBias = {.needs_bias = true};  // all matrices of this class have a bias
  b.matrix("token_embd.weight", "model.embed_tokens.weight", s.n_vocab, s.width);
  norm_with_bias(b, "output_norm", "model.final_layernorm");
  b.linear("output", "lm_head", s.n_vocab, s.width, kBias);
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const auto name = [i](const char* text) { return PlanBuilder::layer(i, text); };
    const auto source = [i](const char* text) { return PlanBuilder::source(i, text); };
    norm_with_bias(b, name("attn_norm"), source("input_layernorm"));
    b.linear(name("attn_q"), source("self_attn.q_proj"), s.q_rows(), s.width, kBias);
    b.linear(name("attn_k"), source("self_attn.k_proj"), s.kv_rows(), s.width, kBias);
    b.linear(name("attn_v"), source("self_attn.v_proj"), s.kv_rows(), s.width, kBias);
    b.linear(name("attn_output"), source("self_attn.dense"), s.width, s.q_rows(), kBias);
    b.linear(name("ffn_up"), source("mlp.fc1"), s.ffn_width, s.width, kBias);
    b.linear(name("ffn_down"), source("mlp.fc2"), s.width, s.ffn_width, kBias);
  }
}

void plan_phi3(const Config& config, ConversionPlan* plan) {
  PlanBuilder b(config, plan, "phi3");
  const Sizes& s = b.sizes();
  b.check_activation({"silu"});
  b.set_sizes();
  b.set("attention.layer_norm_rms_epsilon",
        static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5)));
  RopeFacts rope = read_rope(config);
  const Config inner(rope.scaling, config.path());
  const uint32_t original = inner.count(
      "original_max_position_embeddings", 1, model::kMostContext,
      config.count("original_max_position_embeddings", 1, model::kMostContext, s.context));
  if (rope.type == "yarn") {
    // The builder sets the original context of this kind, and looks for it only here.
    rope.scaling["original_max_position_embeddings"] = original;
  } else {
    b.set("rope.scaling.original_context_length", original);
  }
  if (rope.type == "longrope" || rope.type == "su") {
    set_long_rope(b, plan, rope, original);
  } else {
    b.set_rope(rope);
  }
  b.set("attention.sliding_window", config.count("sliding_window", 0, 1u << 30, 0));
  b.ends({.is_tied_by_default = false});
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const auto name = [i](const char* text) { return PlanBuilder::layer(i, text); };
    const auto source = [i](const char* text) { return PlanBuilder::source(i, text); };
    b.vector(name("attn_norm.weight"), source("input_layernorm.weight"), s.width);
    b.linear(name("attn_qkv"), source("self_attn.qkv_proj"), s.q_rows() + 2 * s.kv_rows(), s.width);
    b.linear(name("attn_output"), source("self_attn.o_proj"), s.width, s.q_rows());
    b.vector(name("ffn_norm.weight"), source("post_attention_layernorm.weight"), s.width);
    b.linear(name("ffn_up"), source("mlp.gate_up_proj"), uint64_t{2} * s.ffn_width, s.width);
    b.linear(name("ffn_down"), source("mlp.down_proj"), s.width, s.ffn_width);
  }
}

}  // namespace troika::convert
