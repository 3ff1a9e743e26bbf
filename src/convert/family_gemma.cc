// Gemma 1, 2 and 3. The weights of their norms are kept as differences from 1. Gemma 2 and 3 have
// two norms around each part, and windows in some layers.
#include <fmt/format.h>

#include "base/os_error.h"
#include "convert/families.h"
#include "convert/plan_builder.h"

namespace troika::convert {
namespace {

// Checks the activation by the key that this family reads before the one of all other classes.
void check_activation(PlanBuilder& b, std::initializer_list<std::string_view> names) {
  b.check_activation(names, {"hidden_activation", "hidden_act"});
}

struct Block {
  bool has_outer_norms = false;  // there are norms behind attention and the feed-forward part, too
  bool has_head_norms = false;   // q and k have norms
};

void add_blocks(PlanBuilder& b, const Block& block) {
  const Sizes& s = b.sizes();
  const LinearTraits attention = {.needs_bias = b.config().flag("attention_bias", false)};
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const auto name = [i](const char* text) { return PlanBuilder::layer(i, text); };
    const auto source = [i](const char* text) { return PlanBuilder::source(i, text); };
    const auto norm = [&](const char* to, const char* from, uint64_t length) {
      b.vector(name(to), source(from), length).added = 1.0F;
    };
    norm("attn_norm.weight", "input_layernorm.weight", s.width);
    b.linear(name("attn_q"), source("self_attn.q_proj"), s.q_rows(), s.width, attention);
    b.linear(name("attn_k"), source("self_attn.k_proj"), s.kv_rows(), s.width, attention);
    b.linear(name("attn_v"), source("self_attn.v_proj"), s.kv_rows(), s.width, attention);
    if (block.has_head_norms) {
      norm("attn_q_norm.weight", "self_attn.q_norm.weight", s.head_dim);
      norm("attn_k_norm.weight", "self_attn.k_norm.weight", s.head_dim);
    }
    b.linear(name("attn_output"), source("self_attn.o_proj"), s.width, s.q_rows(), attention);
    if (block.has_outer_norms) {
      norm("post_attention_norm.weight", "post_attention_layernorm.weight", s.width);
      norm("ffn_norm.weight", "pre_feedforward_layernorm.weight", s.width);
      norm("post_ffw_norm.weight", "post_feedforward_layernorm.weight", s.width);
    } else {
      norm("ffn_norm.weight", "post_attention_layernorm.weight", s.width);
    }
    b.linear(name("ffn_gate"), source("mlp.gate_proj"), s.ffn_width, s.width);
    b.linear(name("ffn_up"), source("mlp.up_proj"), s.ffn_width, s.width);
    b.linear(name("ffn_down"), source("mlp.down_proj"), s.width, s.ffn_width);
  }
}

// Checks the scale of attention, for which the file has no place: readers take 1 / sqrt(head_dim),
// and for the largest model of a generation, which they know by its number of layers, 1 /
// sqrt(width / heads).
void check_scale(const PlanBuilder& b, uint32_t layers_of_largest) {
  const Sizes& s = b.sizes();
  const double usual =
      s.n_layers == layers_of_largest ? double{1} * s.width / s.n_heads : double{1} * s.head_dim;
  const double wanted = b.config().number("query_pre_attn_scalar", 1e-3, 1e9, 256.0);
  if (wanted != usual) {
    b.config().fail(fmt::format("'query_pre_attn_scalar' is {}, and {} is what this program can do",
                                wanted, usual));
  }
}

void set_norms_and_ends(PlanBuilder& b) {
  b.set("attention.layer_norm_rms_epsilon",
        static_cast<float>(b.config().number("rms_norm_eps", 0.0, 1.0, 1e-6)));
  if (b.config().flag("use_bidirectional_attention", false)) {
    b.config().fail("its attention looks forward ('use_bidirectional_attention')");
  }
  b.ends({.is_tied_by_default = true, .norm_added = 1.0F});
}

}  // namespace

void plan_gemma(const Config& config, ConversionPlan* plan) {
  plan->has_space_prefix = false;
  PlanBuilder b(config, plan, "gemma", 256);
  check_activation(b, {"gelu_pytorch_tanh", "gelu"});
  b.set_sizes();
  b.set_rope(read_rope(config));
  set_norms_and_ends(b);
  add_blocks(b, {});
}

void plan_gemma2(const Config& config, ConversionPlan* plan) {
  plan->has_space_prefix = false;
  PlanBuilder b(config, plan, "gemma2", 256);
  check_activation(b, {"gelu_pytorch_tanh"});
  b.check_layer_types([](uint32_t layer) { return layer % 2 == 0; });
  check_scale(b, 46);
  b.set_sizes();
  b.set_rope(read_rope(config));
  // If config.json does not name a cap, it is the usual one. A null means that there is none, which
  // the file says as 0.
  const auto set_cap = [&](const char* key, double usual) {
    const double absent = config.json().contains(key) ? 0.0 : usual;
    b.set(key, static_cast<float>(config.number(key, 1e-3, 1e6, absent)));
  };
  set_cap("attn_logit_softcapping", 50.0);
  set_cap("final_logit_softcapping", 30.0);
  b.set("attention.sliding_window", config.count("sliding_window", 1, 1u << 30, 4096));
  set_norms_and_ends(b);
  add_blocks(b, {.has_outer_norms = true});
}

void plan_gemma3(const Config& config, ConversionPlan* plan) {
  plan->has_space_prefix = false;
  PlanBuilder b(config, plan, "gemma3", 256);
  check_activation(b, {"gelu_pytorch_tanh"});
  b.check_layer_types([](uint32_t layer) { return layer % 6 != 5; });
  if (config.count("sliding_window_pattern", 1, 1024, 6) != 6) {
    config.fail("'sliding_window_pattern' is not 6");
  }
  if (member(config.json(), "attn_logit_softcapping") != nullptr) {
    config.fail("'attn_logit_softcapping' is set");
  }
  const RopeFacts local = read_rope(config, "sliding_attention");
  const bool has_both = member(config.json(), "rope_parameters") != nullptr;
  const double local_theta =
      has_both ? local.theta : config.number("rope_local_base_freq", 1e-3, 1e30, 10000.0);
  if (local_theta != 10000.0) config.fail("the rotation of its windows has a base of its own");
  // The file describes the rotation of the other layers alone, and one share for both.
  if (has_both && local.type != "default") {
    config.fail(fmt::format("the rotation of its windows is of the kind {}, not \"default\"",
                            troika::quoted(local.type)));
  }
  const RopeFacts full = read_rope(config, "full_attention", 1e6);
  if ((has_both && local.rotated_share != 1.0) || full.rotated_share != 1.0) {
    config.fail("only a part of each head is rotated");
  }
  check_scale(b, 62);
  b.set_sizes();
  b.set_rope(full);
  b.set("attention.sliding_window", config.count("sliding_window", 1, 1u << 30, 4096));
  if (member(config.json(), "final_logit_softcapping") != nullptr) {
    b.set("final_logit_softcapping",
          static_cast<float>(config.number("final_logit_softcapping", 1e-3, 1e6)));
  }
  set_norms_and_ends(b);
  add_blocks(b, {.has_outer_norms = true, .has_head_norms = true});
}

}  // namespace troika::convert
