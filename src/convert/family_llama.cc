// Llama, Mistral, Qwen 2 and 3: they share one block, with small differences.
#include "convert/families.h"
#include "convert/plan_builder.h"

namespace troika::convert {
namespace {

constexpr uint32_t kMostWindow = 1u << 30;

struct Block {
  bool is_paired = false;       // heads are rotated as neighbouring pairs, so rows change places
  bool has_head_norms = false;  // q and k have norms
  // q, k and v always have biases and nothing else has, whatever the configuration says.
  bool has_qkv_biases = false;
  bool reads_mlp_bias = false;
};

void add_blocks(PlanBuilder& b, const Block& block) {
  const Sizes& s = b.sizes();
  const bool has_biases = !block.has_qkv_biases && b.config().flag("attention_bias", false);
  const LinearTraits values = {.needs_bias = has_biases || block.has_qkv_biases};
  const LinearTraits ffn = {.needs_bias =
                                block.reads_mlp_bias && b.config().flag("mlp_bias", false)};
  LinearTraits queries = values, keys = values;
  if (block.is_paired) queries.n_rotated_heads = s.n_heads, keys.n_rotated_heads = s.n_kv_heads;
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const auto name = [i](const char* text) { return PlanBuilder::layer(i, text); };
    const auto source = [i](const char* text) { return PlanBuilder::source(i, text); };
    b.vector(name("attn_norm.weight"), source("input_layernorm.weight"), s.width);
    b.linear(name("attn_q"), source("self_attn.q_proj"), s.q_rows(), s.width, queries);
    b.linear(name("attn_k"), source("self_attn.k_proj"), s.kv_rows(), s.width, keys);
    b.linear(name("attn_v"), source("self_attn.v_proj"), s.kv_rows(), s.width, values);
    if (block.has_head_norms) {
      b.vector(name("attn_q_norm.weight"), source("self_attn.q_norm.weight"), s.head_dim);
      b.vector(name("attn_k_norm.weight"), source("self_attn.k_norm.weight"), s.head_dim);
    }
    b.linear(name("attn_output"), source("self_attn.o_proj"), s.width, s.q_rows(),
             {.needs_bias = has_biases});
    b.vector(name("ffn_norm.weight"), source("post_attention_layernorm.weight"), s.width);
    b.linear(name("ffn_gate"), source("mlp.gate_proj"), s.ffn_width, s.width, ffn);
    b.linear(name("ffn_up"), source("mlp.up_proj"), s.ffn_width, s.width, ffn);
    b.linear(name("ffn_down"), source("mlp.down_proj"), s.width, s.ffn_width, ffn);
  }
}

void plan_qwen(const Config& config, ConversionPlan* plan, const char* architecture,
               const Block& block, uint32_t default_head_dim) {
  PlanBuilder b(config, plan, architecture, default_head_dim);
  b.check_activation({"silu"});
  if (config.flag("use_sliding_window", false)) {
    b.limit_context(config.count("sliding_window", 1, kMostWindow, kMostWindow));
  }
  b.set_sizes();
  b.set("attention.layer_norm_rms_epsilon",
        static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6)));
  b.set_rope(read_rope(config));
  b.ends({.is_tied_by_default = false});
  add_blocks(b, block);
}

}  // namespace

void plan_llama(const Config& config, ConversionPlan* plan) {
  PlanBuilder b(config, plan, "llama");
  b.check_activation({"silu", "relu"});
  b.limit_context(config.count("sliding_window", 1, kMostWindow, kMostWindow));
  b.set_sizes();
  b.set("attention.layer_norm_rms_epsilon",
        static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6)));
  if (config.text("hidden_act") == "relu") b.set("feed_forward_activation", std::string("relu"));
  const RopeFacts rope = read_rope(config);
  if (rope.rotated_share != 1.0) config.fail("only a part of each head is rotated");
  b.set_rope(rope);
  b.ends({.is_tied_by_default = false});
  add_blocks(b, {.is_paired = true, .reads_mlp_bias = true});
}

void plan_qwen2(const Config& config, ConversionPlan* plan) {
  plan_qwen(config, plan, "qwen2", {.has_qkv_biases = true}, 0);
}

void plan_qwen3(const Config& config, ConversionPlan* plan) {
  plan_qwen(config, plan, "qwen3", {.has_head_norms = true}, 128);
}

}  // namespace troika::convert
