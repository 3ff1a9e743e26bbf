#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <ostream>
#include <stdexcept>

#include "tests/support/gguf_bytes.h"
#include "tests/support/tiny_tokenizer.h"

namespace troika::test_support {
namespace {

// Writes the tensors of a model. The seed and a tensor's name decide its numbers.
class TensorWriter {
 public:
  TensorWriter(const TinyModel& model, const Rewrite& rewrite, GgufBytes& file)
      : model_(model), rewrite_(rewrite), file_(file) {}

  // The elements' deviation is gain / sqrt(n_in), so the output is about `gain` times as large as
  // the input.
  void matrix(const std::string& name, uint64_t n_in, uint64_t n_out, double gain,
              uint64_t n_experts = 0) {
    uint32_t type = model_.type;
    for (const auto& [ending, other] : model_.types) {
      if (name.ends_with(ending)) type = other;
    }
    Random random(model_.seed, name);
    const double deviation = gain / std::sqrt(static_cast<double>(n_in));
    std::vector<uint64_t> shape = {n_in, n_out};
    if (n_experts > 0) shape.push_back(n_experts);
    add(name, type, shape, random_tensor(type, n_elements_of(shape), deviation, random));
  }

  // Adds a matrix that files keep in F32 whatever the type of the others is.
  void float_matrix(const std::string& name, const std::vector<uint64_t>& shape, double gain) {
    Random random(model_.seed, name);
    const double deviation = gain / std::sqrt(static_cast<double>(shape[0]));
    add(name, kF32, shape, random_tensor(kF32, n_elements_of(shape), deviation, random));
  }

  void floats(const std::string& name, uint64_t length, double low, double high) {
    Random random(model_.seed, name);
    add(name, kF32, {length}, random_floats(length, low, high, random));
  }

  void bias(const std::string& name, uint64_t length) { floats(name, length, -0.5, 0.5); }

  void norm(const std::string& name) {
    floats(name + ".weight", model_.width, 0.5, 1.5);
    if (model_.architecture == "phi2") bias(name + ".bias", model_.width);
  }

 private:
  static size_t n_elements_of(const std::vector<uint64_t>& shape) {
    size_t n_elements = 1;
    for (uint64_t length : shape) n_elements *= length;
    return n_elements;
  }

  void add(const std::string& name, uint32_t type, const std::vector<uint64_t>& shape,
           std::vector<uint8_t> data) {
    if (rewrite_) rewrite_(&type, &data, n_elements_of(shape));
    file_.add_tensor(name, type, shape, data);
  }

  const TinyModel& model_;
  const Rewrite& rewrite_;
  GgufBytes& file_;
};

void add_rare_metadata(const TinyModel& model, const std::string& prefix, GgufBytes& file) {
  const auto add_float = [&](const std::string& key, double value) {
    if (value != 0) file.add_float32(prefix + key, static_cast<float>(value));
  };
  const auto add_uint = [&](const std::string& key, uint32_t value) {
    if (value != 0) file.add_uint32(prefix + key, value);
  };
  add_uint("attention.sliding_window", model.window);
  add_uint("attention.sliding_window_pattern", model.window_period);
  add_float("attn_logit_softcapping", model.attention_cap);
  add_float("final_logit_softcapping", model.logit_cap);
  if (model.n_experts == 0) return;
  add_uint("expert_count", model.n_experts);
  add_uint("expert_used_count", model.n_experts_used);
  add_float("expert_weights_scale", model.expert_scale);
  if (model.expert_width != model.ffn_width) {
    add_uint("expert_feed_forward_length", model.expert_width);
  }
  add_uint("expert_shared_feed_forward_length", model.shared_width);
}

void add_metadata(const TinyModel& model, GgufBytes& file) {
  const std::string prefix = model.architecture + ".";
  file.add_string("general.architecture", model.architecture);
  // llama.cpp asks files of this architecture for tokens that only the real models have.
  const bool is_phi3 = model.architecture == "phi3";
  file.add_string("general.name", is_phi3 ? "tiny phi 3" : "tiny " + model.architecture);
  file.add_uint32(prefix + "context_length", model.context);
  file.add_uint32(prefix + "embedding_length", model.width);
  file.add_uint32(prefix + "block_count", model.n_layers);
  file.add_uint32(prefix + "feed_forward_length", model.ffn_width);
  file.add_uint32(prefix + "attention.head_count", model.n_heads);
  file.add_uint32(prefix + "attention.head_count_kv", model.n_kv_heads);
  file.add_uint32(prefix + "attention.key_length", model.head_dim);
  file.add_uint32(prefix + "attention.value_length", model.head_dim);
  const bool layer_norm = model.architecture == "phi2";
  file.add_float32(prefix + "attention.layer_norm_" + (layer_norm ? "epsilon" : "rms_epsilon"),
                   1e-5f);
  if (!model.activation.empty()) {
    file.add_string(prefix + "feed_forward_activation", model.activation);
  }
  file.add_uint32(prefix + "rope.dimension_count", model.rope_dims);
  file.add_float32(prefix + "rope.freq_base", static_cast<float>(model.rope_base));
  add_rare_metadata(model, prefix, file);
  if (!model.rope_scaling.empty() && model.rope_scaling != "llama3") {
    const bool is_longrope = model.rope_scaling == "longrope";
    if (!is_longrope) {
      file.add_string(prefix + "rope.scaling.type", model.rope_scaling);
      file.add_float32(prefix + "rope.scaling.factor", static_cast<float>(model.rope_factor));
    }
    file.add_uint32(prefix + "rope.scaling.original_context_length", model.original_context);
    if (model.rope_attention_factor != 0) {
      file.add_float32(prefix + "rope.scaling.attn_factor",
                       static_cast<float>(model.rope_attention_factor));
    }
  }
  if (!model.chat_template.empty()) {
    file.add_string("tokenizer.chat_template", model.chat_template);
  }
  if (!model.tool_template.empty()) {
    file.add_string("tokenizer.chat_template.tool_use", model.tool_template);
  }
  if (model.add_eos) file.add_bool("tokenizer.ggml.add_eos_token", true);
}

void add_tokenizer(const TinyModel& model, GgufBytes& file) {
  if (model.tokenizer == "spm") {
    add_spm_tokenizer(file, model.vocabulary);
  } else if (model.tokenizer == "bpe") {
    add_bpe_tokenizer(file, model.vocabulary, model.pre, model.architecture == "llama");
  } else {
    throw std::runtime_error("no tokenizer called " + model.tokenizer);
  }
}

void add_experts(const TinyModel& model, const std::string& block, TensorWriter& tensors) {
  const uint64_t n = model.n_experts, width = model.width, expert = model.expert_width;
  tensors.float_matrix(block + "ffn_gate_inp.weight", {width, n}, 2);
  tensors.matrix(block + "ffn_gate_exps.weight", width, expert, 2, n);
  tensors.matrix(block + "ffn_up_exps.weight", width, expert, 1, n);
  tensors.matrix(block + "ffn_down_exps.weight", expert, width, 1, n);
  if (model.shared_width == 0) return;
  tensors.float_matrix(block + "ffn_gate_inp_shexp.weight", {width}, 1);
  tensors.matrix(block + "ffn_gate_shexp.weight", width, model.shared_width, 2);
  tensors.matrix(block + "ffn_up_shexp.weight", width, model.shared_width, 1);
  tensors.matrix(block + "ffn_down_shexp.weight", model.shared_width, width, 1);
}

void add_ffn(const TinyModel& model, const std::string& block, TensorWriter& tensors) {
  if (model.architecture != "phi2") tensors.norm(block + "ffn_norm");
  if (model.n_experts > 0) return add_experts(model, block, tensors);
  if (model.fused_gate_up) {
    tensors.matrix(block + "ffn_up.weight", model.width, 2 * model.ffn_width, 1.5);
  } else {
    if (model.architecture != "phi2") {
      tensors.matrix(block + "ffn_gate.weight", model.width, model.ffn_width, 2);
      if (model.ffn_biases) tensors.bias(block + "ffn_gate.bias", model.ffn_width);
    }
    tensors.matrix(block + "ffn_up.weight", model.width, model.ffn_width, 1);
  }
  tensors.matrix(block + "ffn_down.weight", model.ffn_width, model.width, 1);
  if (model.ffn_biases) {
    tensors.bias(block + "ffn_up.bias", model.ffn_width);
    tensors.bias(block + "ffn_down.bias", model.width);
  }
  if (model.predictor_rank > 0) {
    tensors.matrix(block + "fc1.weight", model.width, model.predictor_rank, 1);
    tensors.matrix(block + "fc2.weight", model.predictor_rank, model.ffn_width, 1);
  }
}

void add_layer(const TinyModel& model, const std::string& block, TensorWriter& tensors) {
  const uint64_t q_length = model.n_heads * model.head_dim;
  const uint64_t kv_length = model.n_kv_heads * model.head_dim;
  tensors.norm(block + "attn_norm");
  if (model.fused_qkv) {
    tensors.matrix(block + "attn_qkv.weight", model.width, q_length + 2 * kv_length, 1.5);
    if (model.attention_biases) {
      tensors.bias(block + "attn_qkv.bias", q_length + 2 * kv_length);
    }
  } else {
    // A gain above one makes attention look at some positions much more than at others.
    tensors.matrix(block + "attn_q.weight", model.width, q_length, 1.5);
    tensors.matrix(block + "attn_k.weight", model.width, kv_length, 1.5);
    tensors.matrix(block + "attn_v.weight", model.width, kv_length, 1.5);
    if (model.attention_biases) {
      tensors.bias(block + "attn_q.bias", q_length);
      tensors.bias(block + "attn_k.bias", kv_length);
      tensors.bias(block + "attn_v.bias", kv_length);
    }
  }
  tensors.matrix(block + "attn_output.weight", q_length, model.width, 1);
  if (model.output_biases) tensors.bias(block + "attn_output.bias", model.width);
  if (model.qk_norms) {
    tensors.floats(block + "attn_q_norm.weight", model.head_dim, 0.5, 1.5);
    tensors.floats(block + "attn_k_norm.weight", model.head_dim, 0.5, 1.5);
  }
  if (model.post_norms) {
    tensors.norm(block + "post_attention_norm");
    tensors.norm(block + "post_ffw_norm");
  }
  add_ffn(model, block, tensors);
}

}  // namespace

namespace {

void like_qwen(TinyModel& model) {
  model.rope_base = 1000000;
  model.tokenizer = "bpe";
  model.pre = "qwen2";
}

void like_gemma(TinyModel& model) {
  model.head_dim = model.rope_dims = 128;
  model.tied = true;
}

using Recipe = void (*)(TinyModel&);

constexpr std::pair<const char*, Recipe> kRecipes[] = {
    {"llama", [](TinyModel&) {}},
    {"qwen2",
     [](TinyModel& model) {
       like_qwen(model);
       model.attention_biases = true;
     }},
    {"gemma",
     [](TinyModel& model) {
       like_gemma(model);
       model.n_kv_heads = 1;
     }},
    {"phi2",
     [](TinyModel& model) {
       model.n_kv_heads = 4;
       model.rope_dims = 24;
       model.fused_qkv = model.attention_biases = true;
       model.output_biases = model.ffn_biases = true;
       model.tokenizer = "bpe";
     }},
    {"qwen3",
     [](TinyModel& model) {
       like_qwen(model);
       model.qk_norms = true;
       model.head_dim = model.rope_dims = 128;
     }},
    {"phi3",
     [](TinyModel& model) {
       model.rope_dims = 48;
       model.fused_qkv = model.fused_gate_up = true;
     }},
    {"internlm2", [](TinyModel& model) { model.rope_base = 1000000; }},
    {"gemma2",
     [](TinyModel& model) {
       like_gemma(model);
       model.post_norms = true;
       model.window = 8;
       model.attention_cap = 5;
       model.logit_cap = 10;
     }},
    {"gemma3",
     [](TinyModel& model) {
       like_gemma(model);
       model.n_kv_heads = 1;
       model.post_norms = model.qk_norms = true;
       model.window = 8;
       model.window_period = 2;
       model.rope_base = 1000000;
     }},
    {"mixtral",
     [](TinyModel& model) {
       model.architecture = "llama";
       model.n_experts = 4;
       model.expert_width = model.ffn_width = 256;
     }},
    {"qwen2moe",
     [](TinyModel& model) {
       like_qwen(model);
       model.attention_biases = true;
       model.n_experts = 6;
       model.n_experts_used = 3;
       model.shared_width = 512;
     }},
    {"qwen3moe",
     [](TinyModel& model) {
       like_qwen(model);
       model.qk_norms = true;
       model.n_experts = 8;
       model.n_experts_used = 3;
     }},
    {"phonelm",
     [](TinyModel& model) {
       model.n_kv_heads = 4;
       model.tied = true;
       model.tokenizer = "bpe";
       model.pre = "smollm";
     }},
    {"bamboo", [](TinyModel& model) { model.predictor_rank = 256; }},
};

}  // namespace

TinyModel tiny_model(const std::string& architecture) {
  const auto* recipe = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                    [&](const auto& known) { return architecture == known.first; });
  if (recipe == std::end(kRecipes)) {
    throw std::runtime_error("no tiny model of the architecture " + architecture);
  }
  TinyModel model;
  model.architecture = architecture;
  recipe->second(model);
  return model;
}

const std::vector<std::string>& tiny_architectures() {
  static const std::vector<std::string> all = {
      "llama",  "qwen2",  "gemma",   "phi2",     "qwen3",    "phi3",    "internlm2",
      "gemma2", "gemma3", "mixtral", "qwen2moe", "qwen3moe", "phonelm", "bamboo"};
  return all;
}

std::vector<NamedModel> tiny_model_variants() {
  std::vector<NamedModel> variants;
  const auto add = [&](const std::string& name, const std::string& architecture) -> TinyModel& {
    variants.push_back({name, tiny_model(architecture)});
    return variants.back().model;
  };
  add("llama", "llama");
  add("llama-mha", "llama").n_kv_heads = 4;
  add("llama-tied", "llama").tied = true;
  TinyModel& biases = add("llama-biases", "llama");
  biases.attention_biases = biases.output_biases = biases.ffn_biases = true;
  add("llama-linear", "llama").rope_scaling = "linear";
  add("llama-none", "llama").rope_scaling = "none";
  TinyModel& llama3 = add("llama-llama3", "llama");
  llama3.rope_scaling = "llama3";
  llama3.rope_base = 500000;
  llama3.tokenizer = "bpe";
  llama3.pre = "llama-bpe";
  add("llama-yarn", "llama").rope_scaling = "yarn";
  TinyModel& yarn = add("llama-yarn-factor", "llama");
  yarn.rope_scaling = "yarn";
  yarn.rope_attention_factor = 0.8;
  add("llama-wide-heads", "llama").head_dim = 128;
  variants.back().model.rope_dims = 128;
  add("llama-relu", "llama").activation = "relu";
  add("qwen2", "qwen2");
  add("qwen2-tied", "qwen2").tied = true;
  add("qwen2-yarn", "qwen2").rope_scaling = "yarn";
  add("gemma", "gemma");
  add("phi2", "phi2");
  add("qwen3", "qwen3");
  add("phi3", "phi3");
  TinyModel& tied = add("phi3-window", "phi3");
  tied.tied = true;
  tied.window = 9;
  for (const uint32_t original : {64, 512}) {  // the context is above one of them
    TinyModel& model = add(original == 64 ? "phi3-long" : "phi3-short", "phi3");
    model.rope_scaling = "longrope";
    model.original_context = original;
    model.rope_attention_factor = 1.19;
  }
  add("internlm2", "internlm2");
  add("gemma2", "gemma2");
  TinyModel& other = add("gemma2-other", "gemma2");  // has windows in three of its four layers
  other.n_layers = 4;
  other.window_period = 4;
  add("gemma3", "gemma3");
  TinyModel& linear = add("gemma3-linear", "gemma3");
  linear.rope_scaling = "linear";
  linear.rope_factor = 8;
  add("gemma3-whole", "gemma3").window = 0;
  add("mixtral", "mixtral");
  add("turbosparse", "mixtral").activation = "drelu";
  add("qwen2moe", "qwen2moe");
  add("qwen3moe", "qwen3moe");
  add("phonelm", "phonelm");
  add("bamboo", "bamboo");
  add("relu-llama", "llama").predictor_rank = 256;
  return variants;
}

TinyModel narrow_llama(uint32_t context, uint32_t n_heads, uint32_t n_kv_heads) {
  TinyModel model = tiny_model("llama");
  model.width = 64;
  model.n_heads = n_heads;
  model.n_kv_heads = n_kv_heads;
  model.head_dim = model.rope_dims = 32;
  model.ffn_width = 128;
  model.type = kQ8_0;
  model.context = context;
  return model;
}

std::string test_name(const NamedModel& model) {
  std::string name = model.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == ' '; }, '_');
  return name;
}

void PrintTo(const NamedModel& model, std::ostream* out) { *out << model.name; }

TinyModel larger_mixture(uint32_t n_layers, uint32_t width) {
  TinyModel model = tiny_model("mixtral");
  model.n_layers = n_layers;
  model.width = width;
  model.n_heads = width / 64, model.n_kv_heads = width / 256;
  model.ffn_width = model.expert_width = width / 4 * 7;
  model.n_experts = 8;
  model.vocabulary = 2048;
  return model;
}

std::vector<uint8_t> tiny_model_bytes(const TinyModel& model, const Rewrite& rewrite) {
  GgufBytes file;
  TensorWriter tensors(model, rewrite, file);
  add_metadata(model, file);
  add_tokenizer(model, file);
  // The embedding is small, so that the layers decide what comes next and not the last token alone.
  // Gemma multiplies it by sqrt(width).
  const double embedding_gain = model.architecture.starts_with("gemma") ? 0.2 : 2;
  tensors.matrix("token_embd.weight", model.width, model.vocabulary, embedding_gain);
  tensors.norm("output_norm");
  if (!model.tied) tensors.matrix("output.weight", model.width, model.vocabulary, 4);
  if (model.architecture == "phi2") tensors.bias("output.bias", model.vocabulary);
  if (model.rope_scaling == "llama3")
    tensors.floats("rope_freqs.weight", model.rope_dims / 2, 1, 8);
  if (model.rope_scaling == "longrope") {
    tensors.floats("rope_factors_short.weight", model.rope_dims / 2, 1, 2);
    tensors.floats("rope_factors_long.weight", model.rope_dims / 2, 2, 16);
  }
  for (uint32_t i = 0; i < model.n_layers; ++i) {
    add_layer(model, "blk." + std::to_string(i) + ".", tensors);
  }
  return file.finish();
}

void write_tiny_model(const TinyModel& model, const std::string& path) {
  const std::vector<uint8_t> bytes = tiny_model_bytes(model);
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + path);
}

std::vector<int32_t> random_tokens(const TinyModel& model, size_t n_tokens, uint64_t seed) {
  Random random(seed, "tokens");
  std::vector<int32_t> tokens = {1};
  while (tokens.size() < n_tokens) {
    tokens.push_back(static_cast<int32_t>(random.bits() % model.vocabulary));
  }
  return tokens;
}

}  // namespace troika::test_support
