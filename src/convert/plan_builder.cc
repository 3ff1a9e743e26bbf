#include "convert/plan_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/os_error.h"
#include "model/limits.h"

namespace troika::convert {
namespace {

using model::kMostContext;
using model::kMostWidth;
constexpr uint32_t kMostHeads = 1u << 14;

double number_of(const Config& config, const Json& scaling, std::string_view key, double lowest,
                 double highest) {
  return Config(scaling, config.path()).number(key, lowest, highest);
}

}  // namespace

RopeFacts read_rope(const Config& config, std::string_view layer_type, double fallback_theta) {
  RopeFacts rope;
  rope.theta = config.number("rope_theta", 1e-3, 1e30, fallback_theta);
  rope.rotated_share = config.number("partial_rotary_factor", 0.0, 1.0, 1.0);
  const Json* object = member(config.json(), "rope_parameters");
  if (object == nullptr) object = member(config.json(), "rope_scaling");
  if (object == nullptr) return rope;
  if (const Json* own = member(*object, layer_type)) object = own;
  if (!object->is_object()) config.fail("the description of the rotation is no object");
  const Config inner(*object, config.path());
  rope.theta = inner.number("rope_theta", 1e-3, 1e30, rope.theta);
  rope.rotated_share = inner.number("partial_rotary_factor", 0.0, 1.0, rope.rotated_share);
  rope.type = inner.text("rope_type", inner.text("type", "default"));
  rope.scaling = *object;
  return rope;
}

PlanBuilder::PlanBuilder(const Config& config, ConversionPlan* plan, std::string_view architecture,
                         uint32_t default_head_dim)
    : config_(config), plan_(*plan) {
  plan_.architecture = architecture;
  Sizes& s = sizes_;
  s.n_layers = config.count("num_hidden_layers", 1, model::kMostLayers);
  s.width = config.count("hidden_size", 1, kMostWidth);
  s.n_heads = config.count("num_attention_heads", 1, kMostHeads);
  s.n_kv_heads = config.count("num_key_value_heads", 1, s.n_heads, s.n_heads);
  s.ffn_width = config.count("intermediate_size", 1, kMostWidth);
  s.n_vocab = config.count("vocab_size", 1, model::kMostVocabulary);
  s.context = s.trained_context = config.count("max_position_embeddings", 1, kMostContext);
  const uint32_t usual = default_head_dim != 0 ? default_head_dim : s.width / s.n_heads;
  s.head_dim = config.count("head_dim", 1, kMostWidth, std::max(usual, 1u));
  if (s.n_heads % s.n_kv_heads != 0) {
    config.fail(fmt::format("{} heads cannot share {} key and value heads evenly", s.n_heads,
                            s.n_kv_heads));
  }
  if (s.q_rows() > kMostWidth || s.head_dim % 2 != 0) {
    config.fail(fmt::format("{} heads of {} elements are not possible", s.n_heads, s.head_dim));
  }
  plan_.n_vocab = s.n_vocab;
}

void PlanBuilder::set(std::string_view key, Number value) {
  plan_.metadata.emplace_back(key, std::move(value));
}

void PlanBuilder::set_sizes() {
  const Sizes& s = sizes_;
  set("block_count", s.n_layers);
  set("context_length", s.context);
  set("embedding_length", s.width);
  set("feed_forward_length", s.ffn_width);
  set("attention.head_count", s.n_heads);
  set("attention.head_count_kv", s.n_kv_heads);
  set("attention.key_length", s.head_dim);
  set("attention.value_length", s.head_dim);
  set("vocab_size", s.n_vocab);
}

void PlanBuilder::set_rope(const RopeFacts& rope) {
  const auto n_rotated = static_cast<uint32_t>(rope.rotated_share * sizes_.head_dim);
  if (n_rotated < 2 || n_rotated % 2 != 0) {
    config_.fail(
        fmt::format("{} of {} elements of a head are rotated", n_rotated, sizes_.head_dim));
  }
  set("rope.dimension_count", n_rotated);
  set("rope.freq_base", static_cast<float>(rope.theta));
  if (rope.type == "linear") {
    set("rope.scaling.type", std::string("linear"));
    set("rope.scaling.factor",
        static_cast<float>(number_of(config_, rope.scaling, "factor", 1e-3, 1e6)));
  } else if (rope.type == "yarn") {
    for (const char* key : {"attention_factor", "mscale", "mscale_all_dim", "truncate"}) {
      if (member(rope.scaling, key) != nullptr) {
        config_.fail(fmt::format("'{}' of the rotation is not known to this program", key));
      }
    }
    const Config scaling(rope.scaling, config_.path());
    set("rope.scaling.type", std::string("yarn"));
    set("rope.scaling.factor", static_cast<float>(scaling.number("factor", 1e-3, 1e6)));
    set("rope.scaling.original_context_length",
        scaling.count("original_max_position_embeddings", 1, kMostContext, sizes_.trained_context));
    set("rope.scaling.yarn_beta_fast",
        static_cast<float>(scaling.number("beta_fast", 1e-6, 1e6, 32.0)));
    set("rope.scaling.yarn_beta_slow",
        static_cast<float>(scaling.number("beta_slow", 1e-6, 1e6, 1.0)));
  } else if (rope.type == "llama3") {
    add_llama3_divisors(rope);
  } else if (rope.type != "default" && rope.type != "dynamic") {
    // Rotation of the kind "dynamic" changes nothing within the context, so it is allowed.
    config_.fail(fmt::format("the kind of rotation {} is not known to this program",
                             troika::quoted(rope.type)));
  }
}

// Adds the divisors of Llama 3: waves longer than the original context are stretched, short ones
// are not, and between the two there is a slope.
void PlanBuilder::add_llama3_divisors(const RopeFacts& rope) {
  const auto number = [&](const char* key) {
    return number_of(config_, rope.scaling, key, 1e-3, 1e9);
  };
  const double factor = number("factor"), low = number("low_freq_factor"),
               high = number("high_freq_factor");
  const double context = number("original_max_position_embeddings");
  if (high <= low) config_.fail("'high_freq_factor' is not above 'low_freq_factor'");
  PlannedTensor tensor;
  tensor.name = "rope_freqs.weight";
  tensor.shape = {sizes_.head_dim / 2};
  for (uint32_t i = 0; i < sizes_.head_dim / 2; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(rope.theta, 2.0 * i / sizes_.head_dim);
    const double share = std::clamp((context / wave - low) / (high - low), 0.0, 1.0);
    tensor.values.push_back(static_cast<float>(1.0 / ((1.0 - share) / factor + share)));
  }
  plan_.tensors.push_back(std::move(tensor));
}

void PlanBuilder::limit_context(uint32_t window) {
  sizes_.context = std::min(sizes_.context, window);
}

void PlanBuilder::check_activation(std::initializer_list<std::string_view> names,
                                   std::initializer_list<std::string_view> keys) {
  std::string name;
  for (const std::string_view key : keys) {
    if (name.empty()) name = config_.text(key);
  }
  if (name.empty()) name = *names.begin();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  config_.fail(
      fmt::format("the activation {} is not known in a model of this class", troika::quoted(name)));
}

void PlanBuilder::check_layer_types(bool (*is_sliding)(uint32_t layer)) {
  const Json* types = member(config_.json(), "layer_types");
  if (types == nullptr) return;
  bool is_right = types->is_array() && types->size() == sizes_.n_layers;
  for (uint32_t i = 0; is_right && i < sizes_.n_layers; ++i) {
    is_right = (*types)[i] == (is_sliding(i) ? "sliding_attention" : "full_attention");
  }
  if (!is_right) config_.fail("'layer_types' is not what models of this class have");
}

PlannedTensor& PlanBuilder::vector(std::string name, std::string source, uint64_t length) {
  plan_.tensors.push_back({std::move(name), {length}, std::move(source)});
  return plan_.tensors.back();
}

PlannedTensor& PlanBuilder::matrix(std::string name, std::string source, uint64_t n_rows,
                                   uint64_t n_columns) {
  plan_.tensors.push_back({std::move(name), {n_columns, n_rows}, std::move(source)});
  return plan_.tensors.back();
}

void PlanBuilder::linear(const std::string& name, const std::string& source, uint64_t n_rows,
                         uint64_t n_columns, const LinearTraits& traits) {
  matrix(name + ".weight", source + ".weight", n_rows, n_columns).n_rotated_heads =
      traits.n_rotated_heads;
  PlannedTensor& bias = vector(name + ".bias", source + ".bias", n_rows);
  bias.is_optional = !traits.needs_bias;
  bias.n_rotated_heads = traits.n_rotated_heads;
}

void PlanBuilder::ends(const EndTraits& traits) {
  const Sizes& s = sizes_;
  matrix("token_embd.weight", "model.embed_tokens.weight", s.n_vocab, s.width);
  vector("output_norm.weight", "model.norm.weight", s.width).added = traits.norm_added;
  if (config_.flag("tie_word_embeddings", traits.is_tied_by_default)) {
    plan_.unused_prefixes.emplace_back("lm_head.");
  } else {
    linear("output", "lm_head", s.n_vocab, s.width);
  }
}

std::string PlanBuilder::layer(uint32_t i, std::string_view name) {
  return fmt::format("blk.{}.{}", i, name);
}
std::string PlanBuilder::source(uint32_t i, std::string_view name) {
  return fmt::format("model.layers.{}.{}", i, name);
}

}  // namespace troika::convert
