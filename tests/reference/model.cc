// Reads from a GGUF file the weights and the few numbers that the forward pass needs.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "tests/reference/decode.h"
#include "tests/reference/forward.h"

namespace troika::reference {
namespace {

bool is_block_format(const Gguf& file, const std::string& name) {
  if (file.tensors.count(name) == 0) return false;
  const uint32_t type = file.tensors.at(name).type;
  return type != kF32 && type != kF16 && type != kBF16;
}

Linear read_linear(const Gguf& file, const std::string& name) {
  return {file.optional(name + ".weight"), file.optional(name + ".bias"),
          is_block_format(file, name + ".weight")};
}

Linear read_required_linear(const Gguf& file, const std::string& name) {
  file.required(name + ".weight");
  return read_linear(file, name);
}

Norm read_norm(const Gguf& file, const std::string& name) {
  return {file.required(name + ".weight"), file.optional(name + ".bias")};
}

Norm read_optional_norm(const Gguf& file, const std::string& name) {
  return {file.optional(name + ".weight"), file.optional(name + ".bias")};
}

// Returns n rows of a matrix, and of its bias, from row `first` on.
Linear rows_of(const Linear& all, size_t n_in, size_t first, size_t n) {
  Linear part;  // is no copy of `all`, which would keep the memory of all rows
  part.is_block_format = all.is_block_format;
  part.weight.assign(all.weight.begin() + first * n_in, all.weight.begin() + (first + n) * n_in);
  if (!all.bias.empty()) part.bias.assign(all.bias.begin() + first, all.bias.begin() + first + n);
  return part;
}

constexpr const char* kKnown[] = {"llama",    "qwen2",     "gemma",  "phi2",   "qwen3",
                                  "phi3",     "internlm2", "gemma2", "gemma3", "qwen2moe",
                                  "qwen3moe", "phonelm",   "bamboo"};

}  // namespace

Model::Model(const Gguf& file) {
  architecture = file.text("general.architecture", "");
  const std::string& arch = architecture;
  const auto number = [&](const std::string& key) { return file.number(arch + "." + key); };
  const auto number_or = [&](const std::string& key, double otherwise) {
    return file.number(arch + "." + key, otherwise);
  };
  if (std::find(std::begin(kKnown), std::end(kKnown), arch) == std::end(kKnown)) {
    throw std::runtime_error("the reference does not know the architecture " + arch);
  }

  width = number("embedding_length");
  n_layers = number("block_count");
  n_heads = number("attention.head_count");
  n_kv_heads = number_or("attention.head_count_kv", n_heads);
  head_dim = number_or("attention.key_length", width / n_heads);
  if (number_or("attention.value_length", width / n_heads) != head_dim) {
    throw std::runtime_error("keys and values of different lengths");
  }

  layer_norm = arch == "phi2";
  norm_epsilon = layer_norm ? number("attention.layer_norm_epsilon")
                            : number("attention.layer_norm_rms_epsilon");
  parallel_ffn = arch == "phi2";
  const bool is_gemma = arch.starts_with("gemma");
  embedding_scale = is_gemma ? std::sqrt(width) : 1;
  activation = is_gemma || arch == "phi2" ? "gelu" : arch == "phonelm" ? "relu" : "silu";
  if (arch == "bamboo") activation = "drelu";
  if (arch == "llama" && file.tensors.count("blk.0.fc1.weight") != 0) activation = "relu";
  activation = file.text(arch + ".feed_forward_activation", activation);
  rope_halves = arch != "llama" && arch != "internlm2" && arch != "bamboo";
  attention_scale = 1 / std::sqrt(head_dim);
  if (arch == "gemma2") {
    attention_cap = number_or("attn_logit_softcapping", 50);
    logit_cap = number_or("final_logit_softcapping", 30);
  }
  n_experts_used = number_or("expert_used_count", 0);
  normalize_shares = arch != "qwen2moe";
  share_scale = number_or("expert_weights_scale", 1);

  embedding = file.required("token_embd.weight");
  vocabulary = embedding.size() / width;
  for (size_t i = 0; i < n_layers; ++i) layers.push_back(read_layer(file, i));
  output_norm = read_norm(file, "output_norm");
  output = read_linear(file, "output");
  if (output.weight.empty()) {  // the embedding is used again
    output.weight = embedding;
    output.is_block_format = is_block_format(file, "token_embd.weight");
  }
}

Layer Model::read_layer(const Gguf& file, size_t index) const {
  const std::string block = "blk." + std::to_string(index) + ".";
  Layer layer;
  layer.attention_norm = read_norm(file, block + "attn_norm");
  layer.qkv = read_linear(file, block + "attn_qkv");
  if (layer.qkv.weight.empty()) {
    layer.q = read_required_linear(file, block + "attn_q");
    layer.k = read_required_linear(file, block + "attn_k");
    layer.v = read_required_linear(file, block + "attn_v");
  }
  layer.q_norm = file.optional(block + "attn_q_norm.weight");
  layer.k_norm = file.optional(block + "attn_k_norm.weight");
  layer.rope = read_rope(file);
  const double window = file.number(architecture + ".attention.sliding_window", 0);
  // In Gemma 2 and 3 every second or sixth layer sees everything, unless the file says another
  // number.
  const double default_period = architecture == "gemma2" ? 2 : architecture == "gemma3" ? 6 : 0;
  const size_t period = static_cast<size_t>(
      file.number(architecture + ".attention.sliding_window_pattern", default_period));
  if (window != 0 && (period == 0 || index % period != period - 1)) {
    layer.window = window;
    if (architecture == "gemma3") {  // layers with a window rotate without scaling
      const double n_pairs = layer.rope.frequencies.size();
      const double base = file.number(architecture + ".rope.freq_base_swa", 10000);
      layer.rope = {};
      for (double j = 0; j < n_pairs; ++j) {
        layer.rope.frequencies.push_back(std::pow(base, -j / n_pairs));
      }
    }
  }
  layer.attention_output = read_required_linear(file, block + "attn_output");
  layer.attention_post_norm = read_optional_norm(file, block + "post_attention_norm");
  if (!parallel_ffn) layer.ffn_norm = read_norm(file, block + "ffn_norm");
  layer.ffn_post_norm = read_optional_norm(file, block + "post_ffw_norm");
  if (n_experts_used > 0) {
    read_experts(file, block, layer);
    return layer;
  }
  layer.ffn.gate = read_linear(file, block + "ffn_gate");
  layer.ffn.up = read_required_linear(file, block + "ffn_up");
  layer.ffn.down = read_required_linear(file, block + "ffn_down");
  if (architecture == "phi3") {  // the first half of the rows is the gate
    const size_t n = layer.ffn.up.weight.size() / width / 2;
    layer.ffn.gate = rows_of(layer.ffn.up, width, 0, n);
    layer.ffn.up = rows_of(layer.ffn.up, width, n, n);
  }
  return layer;
}

void Model::read_experts(const Gguf& file, const std::string& block, Layer& layer) const {
  layer.router = read_required_linear(file, block + "ffn_gate_inp");
  const Linear gates = read_required_linear(file, block + "ffn_gate_exps");
  const Linear ups = read_required_linear(file, block + "ffn_up_exps");
  const Linear downs = read_required_linear(file, block + "ffn_down_exps");
  const size_t n_experts = file.number(architecture + ".expert_count");
  const size_t n = gates.weight.size() / width / n_experts;  // is the width of an expert
  for (size_t i = 0; i < n_experts; ++i) {
    layer.experts.push_back({rows_of(gates, width, i * n, n), rows_of(ups, width, i * n, n),
                             rows_of(downs, n, i * width, width)});
  }
  layer.shared = {read_linear(file, block + "ffn_gate_shexp"),
                  read_linear(file, block + "ffn_up_shexp"),
                  read_linear(file, block + "ffn_down_shexp")};
  layer.shared_share = read_linear(file, block + "ffn_gate_inp_shexp");
}

// Pair j of n turns by base^(-j/n) for each position. Models that reach longer contexts change
// that.
Rope Model::read_rope(const Gguf& file) const {
  Rope rope;
  const auto number_or = [&](const std::string& key, double otherwise) {
    return file.number(architecture + ".rope." + key, otherwise);
  };
  const double base = number_or("freq_base", 10000);
  const double n_dims = number_or("dimension_count", head_dim);
  const std::string scaling = file.text(architecture + ".rope.scaling.type", "linear");
  double factor = number_or("scaling.factor", number_or("scale_linear", 1));
  if (factor == 0 || scaling == "none") factor = 1;

  rope.magnitude = number_or("scaling.attn_factor", 1);
  Vector divisors = file.optional("rope_freqs.weight");  // Llama 3 has a divisor for each pair
  // Phi 3 has other divisors for contexts that are longer than the original one
  if (divisors.empty()) {
    const double context = file.number(architecture + ".context_length");
    const bool is_long = context > number_or("scaling.original_context_length", context);
    divisors = file.optional(is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
  }
  for (size_t j = 0; j < n_dims / 2; ++j) {
    double frequency = std::pow(base, -2.0 * j / n_dims);
    if (!divisors.empty()) frequency /= divisors.at(j);
    rope.frequencies.push_back(frequency);
  }

  if (scaling != "yarn") {
    for (double& frequency : rope.frequencies) frequency /= factor;
    return rope;
  }
  // In YaRN, pairs that turn more than 32 times within the original context stay as they are, pairs
  // that turn less than once are divided by the factor, and a ramp lies between.
  const double context =
      number_or("scaling.original_context_length", file.number(architecture + ".context_length"));
  const auto pair_that_turns = [&](double n_turns) {
    return n_dims * std::log(context / (n_turns * 2 * M_PI)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(pair_that_turns(32)));
  const double high = std::min(n_dims - 1, std::ceil(pair_that_turns(1)));
  for (size_t j = 0; j < rope.frequencies.size(); ++j) {
    const double ramp = std::clamp((j - low) / std::max(0.001, high - low), 0.0, 1.0);
    rope.frequencies[j] *= (1 - ramp) + ramp / factor;
  }
  if (factor > 1) rope.magnitude *= 1 + 0.1 * std::log(factor);
  return rope;
}

}  // namespace troika::reference
