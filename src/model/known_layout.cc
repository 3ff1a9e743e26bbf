// Lists the tensors and metadata that a file of each architecture holds.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <span>

#include "model/known.h"

namespace troika::model {
namespace {

// These are the constants of Llama 3's scaling, equal in all published models that use it.
constexpr double kLowFrequencyFactor = 1.0;
constexpr double kHighFrequencyFactor = 4.0;
constexpr double kOriginalContext = 8192.0;

// What sets an architecture apart in its list of tensors.
struct Traits {
  bool qkv_fused = false;   // one matrix attn_qkv
  bool qkv_biases = false;  // biases on attn_qkv, or on the three matrices
  bool qk_norms = false;    // norms per head of queries and keys
  bool post_norms = false;  // norms of what attention and FFN add
  bool all_biases = false;  // biases on norms, output projections, FFN and output
  bool ffn_gate = true;
  bool ffn_fused = false;  // gate and up in one matrix ffn_up
  bool ffn_norm = true;    // false: attention and FFN read the same normalised input
};

Traits traits_of(std::string_view architecture) {
  if (architecture == "qwen2" || architecture == "qwen2moe") return {.qkv_biases = true};
  if (architecture == "qwen3" || architecture == "qwen3moe") return {.qk_norms = true};
  if (architecture == "gemma2") return {.post_norms = true};
  if (architecture == "gemma3") return {.qk_norms = true, .post_norms = true};
  if (architecture == "phi3") return {.qkv_fused = true, .ffn_fused = true};
  if (architecture == "phi2") {
    return {.qkv_fused = true,
            .qkv_biases = true,
            .all_biases = true,
            .ffn_gate = false,
            .ffn_norm = false};
  }
  return {};
}

class Lister {
 public:
  explicit Lister(const KnownModel& model)
      : model_(model), traits_(traits_of(model.architecture)) {}

  std::vector<KnownTensor> list() {
    const uint64_t width = model_.width;
    if (model_.rope_factor > 0) {
      add("rope_freqs.weight", {model_.head_dim / 2}, TensorRole::kRopeFactors);
    }
    add("token_embd.weight", {width, model_.n_vocab}, TensorRole::kEmbedding);
    for (uint32_t layer = 0; layer < model_.n_layers; ++layer) {
      prefix_ = fmt::format("blk.{}.", layer);
      add_attention();
      add_ffn();
    }
    prefix_.clear();
    add_norm("output_norm");
    if (!model_.tied_embeddings) {
      add("output.weight", {width, model_.n_vocab}, TensorRole::kMatrix);
    }
    if (traits_.all_biases) add("output.bias", {model_.n_vocab}, TensorRole::kBias);
    return std::move(tensors_);
  }

 private:
  void add(std::string_view name, std::vector<uint64_t> shape, TensorRole role) {
    tensors_.push_back({prefix_ + std::string(name), std::move(shape), role});
  }
  void add_linear(std::string_view name, uint64_t inputs, uint64_t outputs, bool bias,
                  TensorRole role = TensorRole::kMatrix) {
    add(fmt::format("{}.weight", name), {inputs, outputs}, role);
    if (bias) add(fmt::format("{}.bias", name), {outputs}, TensorRole::kBias);
  }
  void add_norm(std::string_view name) {
    add(fmt::format("{}.weight", name), {model_.width}, TensorRole::kNorm);
    if (traits_.all_biases) add(fmt::format("{}.bias", name), {model_.width}, TensorRole::kBias);
  }

  void add_attention() {
    const uint64_t width = model_.width;
    add_norm("attn_norm");
    if (traits_.qkv_fused) {
      add_linear("attn_qkv", width, model_.query_width() + 2 * model_.kv_width(),
                 traits_.qkv_biases);
    } else {
      add_linear("attn_q", width, model_.query_width(), traits_.qkv_biases);
      add_linear("attn_k", width, model_.kv_width(), traits_.qkv_biases);
      add_linear("attn_v", width, model_.kv_width(), traits_.qkv_biases);
    }
    if (traits_.qk_norms) {
      add("attn_q_norm.weight", {model_.head_dim}, TensorRole::kNorm);
      add("attn_k_norm.weight", {model_.head_dim}, TensorRole::kNorm);
    }
    add_linear("attn_output", model_.query_width(), width, traits_.all_biases,
               TensorRole::kInnerMatrix);
    if (traits_.post_norms) add_norm("post_attention_norm");
  }

  void add_experts() {
    const uint64_t width = model_.width, n = model_.n_experts;
    const uint64_t expert = model_.expert_width > 0 ? model_.expert_width : model_.ffn_width;
    add("ffn_gate_inp.weight", {width, n}, TensorRole::kMatrix);
    add("ffn_gate_exps.weight", {width, expert, n}, TensorRole::kMatrix);
    add("ffn_up_exps.weight", {width, expert, n}, TensorRole::kMatrix);
    add("ffn_down_exps.weight", {expert, width, n}, TensorRole::kInnerMatrix);
    if (model_.shared_width == 0) return;
    add("ffn_gate_inp_shexp.weight", {width}, TensorRole::kBias);
    add_linear("ffn_gate_shexp", width, model_.shared_width, false);
    add_linear("ffn_up_shexp", width, model_.shared_width, false);
    add_linear("ffn_down_shexp", model_.shared_width, width, false, TensorRole::kInnerMatrix);
  }

  void add_ffn() {
    const uint64_t width = model_.width;
    const uint64_t ffn_width = model_.ffn_width;
    if (traits_.ffn_norm) add_norm("ffn_norm");
    if (model_.n_experts > 0) {
      add_experts();
      return;
    }
    if (traits_.ffn_gate && !traits_.ffn_fused) add_linear("ffn_gate", width, ffn_width, false);
    add_linear("ffn_up", width, traits_.ffn_fused ? 2 * ffn_width : ffn_width, traits_.all_biases);
    add_linear("ffn_down", ffn_width, width, traits_.all_biases, TensorRole::kInnerMatrix);
    if (traits_.post_norms) add_norm("post_ffw_norm");
  }

  const KnownModel& model_;
  Traits traits_;
  std::string prefix_;
  std::vector<KnownTensor> tensors_;
};

std::string_view default_activation(std::string_view architecture) {
  if (architecture.starts_with("gemma") || architecture == "phi2") return "gelu";
  if (architecture == "phonelm") return "relu";
  if (architecture == "bamboo") return "drelu";
  return "silu";
}

}  // namespace

std::vector<KnownTensor> known_tensors(const KnownModel& model) { return Lister(model).list(); }

uint64_t n_parameters(const KnownModel& model) {
  uint64_t n = 0;
  for (const KnownTensor& tensor : known_tensors(model)) {
    if (tensor.role == TensorRole::kRopeFactors) continue;
    uint64_t n_elements = 1;
    for (const uint64_t length : tensor.shape) n_elements *= length;
    n += n_elements;
  }
  return n;
}

std::vector<float> rope_factors(const KnownModel& model) {
  std::vector<float> factors;
  if (model.rope_factor <= 0) return factors;
  for (uint32_t i = 0; i < model.head_dim; i += 2) {
    const double turns_per_token =
        std::pow(model.rope_base, -static_cast<double>(i) / model.head_dim) /
        (2 * std::numbers::pi);
    // Counts the turns that the pair makes within the context of the first training.
    const double turns = kOriginalContext * turns_per_token;
    double factor = 1.0;
    if (turns < kLowFrequencyFactor) {
      factor = model.rope_factor;
    } else if (turns <= kHighFrequencyFactor) {
      const double smooth =
          (turns - kLowFrequencyFactor) / (kHighFrequencyFactor - kLowFrequencyFactor);
      factor = 1.0 / ((1.0 - smooth) / model.rope_factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

void add_known_metadata(const KnownModel& model, gguf::Writer& writer) {
  const auto key = [&](std::string_view name) {
    return fmt::format("{}.{}", model.architecture, name);
  };
  writer.add_string("general.architecture", model.architecture);
  writer.add_string("general.name", model.name);
  writer.add_uint32(key("block_count"), model.n_layers);
  writer.add_uint32(key("context_length"), model.n_context);
  writer.add_uint32(key("embedding_length"), model.width);
  writer.add_uint32(key("feed_forward_length"), model.ffn_width);
  writer.add_uint32(key("attention.head_count"), model.n_heads);
  writer.add_uint32(key("attention.head_count_kv"), model.n_kv_heads);
  writer.add_uint32(key("attention.key_length"), model.head_dim);
  writer.add_uint32(key("attention.value_length"), model.head_dim);
  const bool layer_norm = model.architecture == "phi2";
  writer.add_float32(
      key(layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
      static_cast<float>(model.norm_eps));
  writer.add_uint32(key("rope.dimension_count"),
                    model.rope_dims > 0 ? model.rope_dims : model.head_dim);
  writer.add_float32(key("rope.freq_base"), static_cast<float>(model.rope_base));
  writer.add_uint32(key("vocab_size"), model.n_vocab);
  if (model.n_experts > 0) {
    writer.add_uint32(key("expert_count"), model.n_experts);
    writer.add_uint32(key("expert_used_count"), model.n_experts_used);
  }
  const auto add_uint = [&](std::string_view name, uint32_t value) {
    if (value > 0) writer.add_uint32(key(name), value);
  };
  add_uint("expert_feed_forward_length", model.expert_width);
  add_uint("expert_shared_feed_forward_length", model.shared_width);
  add_uint("attention.sliding_window", model.window);
  add_uint("attention.sliding_window_pattern", model.window_period);
  if (model.attention_cap > 0) {
    writer.add_float32(key("attn_logit_softcapping"), static_cast<float>(model.attention_cap));
  }
  if (model.logit_cap > 0) {
    writer.add_float32(key("final_logit_softcapping"), static_cast<float>(model.logit_cap));
  }
  if (model.activation != default_activation(model.architecture)) {
    writer.add_string(key("feed_forward_activation"), model.activation);
  }
}

}  // namespace troika::model
