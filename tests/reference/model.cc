// From a GGUF file to the weights and the few numbers that the forward pass needs.
#include <algorithm>
#include <cmath>
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

}  // namespace

Model::Model(const Gguf& file) {
  architecture = file.text("general.architecture", "");
  const auto number = [&](const std::string& key) { return file.number(architecture + "." + key); };
  const auto number_or = [&](const std::string& key, double otherwise) {
    return file.number(architecture + "." + key, otherwise);
  };
  if (architecture != "llama" && architecture != "qwen2" && architecture != "gemma" &&
      architecture != "phi2") {
    throw std::runtime_error("the reference does not know the architecture " + architecture);
  }
  if (number_or("expert_count", 0) != 0) throw std::runtime_error("mixture of experts");

  width = number("embedding_length");
  n_layers = number("block_count");
  n_heads = number("attention.head_count");
  n_kv_heads = number_or("attention.head_count_kv", n_heads);
  head_dim = number_or("attention.key_length", width / n_heads);
  if (number_or("attention.value_length", width / n_heads) != head_dim) {
    throw std::runtime_error("keys and values of different lengths");
  }

  layer_norm = architecture == "phi2";
  norm_epsilon = layer_norm ? number("attention.layer_norm_epsilon")
                            : number("attention.layer_norm_rms_epsilon");
  parallel_ffn = architecture == "phi2";
  embedding_scale = architecture == "gemma" ? std::sqrt(width) : 1;
  activation = architecture == "gemma" || architecture == "phi2" ? "gelu" : "silu";
  activation = file.text(architecture + ".feed_forward_activation", activation);
  rope_halves = architecture != "llama";
  read_rope(file);

  embedding = file.required("token_embd.weight");
  vocabulary = embedding.size() / width;
  for (size_t i = 0; i < n_layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    Layer layer;
    layer.attention_norm = read_norm(file, block + "attn_norm");
    layer.qkv = read_linear(file, block + "attn_qkv");
    if (layer.qkv.weight.empty()) {
      layer.q = read_required_linear(file, block + "attn_q");
      layer.k = read_required_linear(file, block + "attn_k");
      layer.v = read_required_linear(file, block + "attn_v");
    }
    layer.attention_output = read_required_linear(file, block + "attn_output");
    if (!parallel_ffn) layer.ffn_norm = read_norm(file, block + "ffn_norm");
    layer.gate = read_linear(file, block + "ffn_gate");
    layer.up = read_required_linear(file, block + "ffn_up");
    layer.down = read_required_linear(file, block + "ffn_down");
    layers.push_back(std::move(layer));
  }
  output_norm = read_norm(file, "output_norm");
  output = read_linear(file, "output");
  if (output.weight.empty()) {  // tied
    output.weight = embedding;
    output.is_block_format = is_block_format(file, "token_embd.weight");
  }
}

// Pair j of n turns by base^(-j/n) per position; the ways to reach longer contexts change that.
void Model::read_rope(const Gguf& file) {
  const auto number_or = [&](const std::string& key, double otherwise) {
    return file.number(architecture + ".rope." + key, otherwise);
  };
  const double base = number_or("freq_base", 10000);
  const double n_dims = number_or("dimension_count", head_dim);
  const std::string scaling = file.text(architecture + ".rope.scaling.type", "linear");
  double factor = number_or("scaling.factor", number_or("scale_linear", 1));
  if (factor == 0 || scaling == "none") factor = 1;

  rope_magnitude = number_or("scaling.attn_factor", 1);
  const Vector divisors = file.optional("rope_freqs.weight");  // Llama 3: one for each pair
  for (size_t j = 0; j < n_dims / 2; ++j) {
    double frequency = std::pow(base, -2.0 * j / n_dims);
    if (!divisors.empty()) frequency /= divisors.at(j);
    rope_frequencies.push_back(frequency);
  }

  if (scaling != "yarn") {
    for (double& frequency : rope_frequencies) frequency /= factor;
    return;
  }
  // YaRN: pairs that turn more than 32 times within the original context stay as they are, pairs
  // that turn less than once are divided by the factor, and a ramp lies between.
  const double context =
      number_or("scaling.original_context_length", file.number(architecture + ".context_length"));
  const auto pair_that_turns = [&](double n_turns) {
    return n_dims * std::log(context / (n_turns * 2 * M_PI)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(pair_that_turns(32)));
  const double high = std::min(n_dims - 1, std::ceil(pair_that_turns(1)));
  for (size_t j = 0; j < rope_frequencies.size(); ++j) {
    const double ramp = std::clamp((j - low) / std::max(0.001, high - low), 0.0, 1.0);
    rope_frequencies[j] *= (1 - ramp) + ramp / factor;
  }
  if (factor > 1) rope_magnitude *= 1 + 0.1 * std::log(factor);
}

}  // namespace troika::reference
