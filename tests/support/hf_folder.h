// Makes a model folder of Hugging Face for tests: writes the weights of a GGUF file as safetensors,
// with config.json and a tokenizer. It has a list of names and orders of its own, so that it can
// judge the one of src/.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gguf/file.h"
#include "tensor/codec.h"
#include "tests/support/temp_folder.h"

namespace troika::test_support {

struct RawTensor {
  std::string dtype = "F32";
  std::vector<uint64_t> shape;  // counts rows first
  std::string bytes;
};

// Returns the bytes of a safetensors file: the length of the header, the header, the data.
inline std::string safetensors_bytes(const std::map<std::string, RawTensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

struct HfFolder {
  std::map<std::string, RawTensor> tensors;
  nlohmann::json config;
  nlohmann::json tokenizer;         // becomes tokenizer.json unless it is null
  std::string tokenizer_model;      // becomes tokenizer.model unless it is empty
  nlohmann::json tokenizer_config;  // becomes tokenizer_config.json unless it is null
  nlohmann::json generation_config;

  // Writes everything but the weights.
  void write_settings(const std::string& path) const {
    std::filesystem::create_directories(path);
    const auto write = [&](const char* name, const nlohmann::json& json) {
      if (!json.is_null()) test::write_whole(path + "/" + name, json.dump());
    };
    write("config.json", config);
    write("tokenizer.json", tokenizer);
    write("tokenizer_config.json", tokenizer_config);
    write("generation_config.json", generation_config);
    if (!tokenizer_model.empty()) test::write_whole(path + "/tokenizer.model", tokenizer_model);
  }
  void write(const std::string& path) const {
    write_settings(path);
    test::write_whole(path + "/model.safetensors", safetensors_bytes(tensors));
  }
  // Writes the weights in two files, with or without an index of them.
  void write_parts(const std::string& path, bool has_index) const {
    write_settings(path);
    std::map<std::string, RawTensor> parts[2];
    nlohmann::json index = {{"metadata", {{"total_size", 0}}}};
    for (const auto& [name, tensor] : tensors) {
      const size_t part = parts[0].size() > parts[1].size() ? 1 : 0;
      parts[part].emplace(name, tensor);
      index["weight_map"][name] = part_name(part + 1);
    }
    for (size_t part = 0; part < 2; ++part) {
      test::write_whole(path + "/" + part_name(part + 1), safetensors_bytes(parts[part]));
    }
    if (has_index) test::write_whole(path + "/model.safetensors.index.json", index.dump());
  }
  static std::string part_name(size_t number) {
    return "model-0000" + std::to_string(number) + "-of-00002.safetensors";
  }
};

inline std::string hf_name(const std::string& architecture, const std::string& name) {
  using Names = std::vector<std::pair<std::string, std::string>>;
  static const Names kNames = {{"token_embd.", "model.embed_tokens."},
                               {"output_norm.", "model.norm."},
                               {"output.", "lm_head."},
                               {"attn_norm.", "input_layernorm."},
                               {"attn_q.", "self_attn.q_proj."},
                               {"attn_k.", "self_attn.k_proj."},
                               {"attn_v.", "self_attn.v_proj."},
                               {"attn_q_norm.", "self_attn.q_norm."},
                               {"attn_k_norm.", "self_attn.k_norm."},
                               {"attn_output.", "self_attn.o_proj."},
                               {"post_attention_norm.", "post_attention_layernorm."},
                               {"post_ffw_norm.", "post_feedforward_layernorm."},
                               {"ffn_norm.", "post_attention_layernorm."},
                               {"ffn_gate.", "mlp.gate_proj."},
                               {"ffn_up.", "mlp.up_proj."},
                               {"ffn_down.", "mlp.down_proj."}};
  // These names differ from the usual ones in some classes of models.
  static const std::map<std::string, Names> kOwn = {
      {"gemma2", {{"ffn_norm.", "pre_feedforward_layernorm."}}},
      {"gemma3", {{"ffn_norm.", "pre_feedforward_layernorm."}}},
      {"phi2",
       {{"output_norm.", "model.final_layernorm."},
        {"attn_output.", "self_attn.dense."},
        {"ffn_up.", "mlp.fc1."},
        {"ffn_down.", "mlp.fc2."}}},
      {"phi3", {{"attn_qkv.", "self_attn.qkv_proj."}, {"ffn_up.", "mlp.gate_up_proj."}}}};
  std::string rest = name, prefix;
  if (name.starts_with("blk.")) {
    const size_t end = name.find('.', 4) + 1;
    prefix = "model.layers." + name.substr(4, end - 4);
    rest = name.substr(end);
  }
  const auto own = kOwn.find(architecture);
  for (const Names& names : {own == kOwn.end() ? Names{} : own->second, kNames}) {
    for (const auto& [from, to] : names) {
      if (rest.starts_with(from)) return prefix + to + rest.substr(from.size());
    }
  }
  throw std::runtime_error("no name for " + name);
}

// Reorders the rows of each head: the elements of a pair, which were neighbours, come to lie half a
// head apart.
inline std::vector<float> halves_of(const std::vector<float>& values, size_t n_rows,
                                    size_t n_heads) {
  const size_t length = values.size() / n_rows, head_dim = n_rows / n_heads;
  std::vector<float> out;
  for (size_t head = 0; head < n_heads; ++head) {
    for (size_t parity = 0; parity < 2; ++parity) {
      for (size_t i = 0; i < head_dim / 2; ++i) {
        const size_t row = head * head_dim + 2 * i + parity;
        out.insert(out.end(), values.begin() + static_cast<ptrdiff_t>(row * length),
                   values.begin() + static_cast<ptrdiff_t>((row + 1) * length));
      }
    }
  }
  return out;
}

inline std::vector<float> hf_values(const gguf::File& file, const gguf::TensorInfo& tensor) {
  std::vector<float> values(tensor.n_elements());
  tensor::dequantize_row(tensor.type, file.data(tensor).data(), values.data(), values.size());
  return values;
}

// Returns the weights in F32, in the order and with the offsets that classes of Hugging Face
// expect.
inline std::map<std::string, RawTensor> hf_tensors(const gguf::File& file) {
  const std::string architecture(file.get_string("general.architecture"));
  const auto heads = [&](const char* key) {
    return static_cast<size_t>(file.find_uint(architecture + ".attention." + key).value());
  };
  std::map<std::string, RawTensor> tensors;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (name.starts_with("rope_")) continue;  // config.json says the same
    std::vector<float> values = hf_values(file, tensor);
    if (architecture == "llama" && name.find("attn_q.") != std::string::npos) {
      values = halves_of(values, tensor.shape.back(), heads("head_count"));
    }
    if (architecture == "llama" && name.find("attn_k.") != std::string::npos) {
      values = halves_of(values, tensor.shape.back(), heads("head_count_kv"));
    }
    if (architecture.starts_with("gemma") && name.find("norm.") != std::string::npos) {
      for (float& value : values) value -= 1.0F;
    }
    RawTensor raw;
    raw.shape.assign(tensor.shape.rbegin(), tensor.shape.rend());
    raw.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    tensors.emplace(hf_name(architecture, name), std::move(raw));
  }
  return tensors;
}

// Adds the settings that only some classes have.
inline void add_own_settings(const gguf::File& file, const std::string& a, nlohmann::json* config) {
  const auto add = [&](const char* name, const std::string& key) {
    if (const auto number = file.find_float(a + "." + key)) (*config)[name] = *number;
  };
  const auto window = file.find_uint(a + ".attention.sliding_window");
  if (window) (*config)["sliding_window"] = *window;
  if (a == "gemma2" || a == "gemma3") {
    (*config)["query_pre_attn_scalar"] = file.find_uint(a + ".attention.key_length").value();
    add("attn_logit_softcapping", "attn_logit_softcapping");
    add("final_logit_softcapping", "final_logit_softcapping");
  }
  if (!a.starts_with("phi")) return;
  (*config)["partial_rotary_factor"] =
      static_cast<double>(file.find_uint(a + ".rope.dimension_count").value()) /
      static_cast<double>(file.find_uint(a + ".attention.key_length").value());
  const gguf::TensorInfo* divisors = file.find_tensor("rope_factors_long.weight");
  if (divisors == nullptr) return;
  (*config)["original_max_position_embeddings"] =
      file.find_uint(a + ".rope.scaling.original_context_length").value();
  (*config)["rope_scaling"] = {
      {"type", "longrope"},
      {"attention_factor", file.find_float(a + ".rope.scaling.attn_factor").value()},
      {"long_factor", hf_values(file, *divisors)},
      {"short_factor", hf_values(file, file.get_tensor("rope_factors_short.weight"))}};
}

// Returns the config.json that says the numbers of a file.
inline nlohmann::json hf_config(const gguf::File& file) {
  struct Class {
    const char* name;
    const char* activation;
  };
  static const std::map<std::string, Class> kClasses = {
      {"llama", {"LlamaForCausalLM", "silu"}},
      {"qwen2", {"Qwen2ForCausalLM", "silu"}},
      {"qwen3", {"Qwen3ForCausalLM", "silu"}},
      {"gemma", {"GemmaForCausalLM", "gelu_pytorch_tanh"}},
      {"gemma2", {"Gemma2ForCausalLM", "gelu_pytorch_tanh"}},
      {"gemma3", {"Gemma3ForCausalLM", "gelu_pytorch_tanh"}},
      {"phi2", {"PhiForCausalLM", "gelu_new"}},
      {"phi3", {"Phi3ForCausalLM", "silu"}}};
  const std::string a(file.get_string("general.architecture"));
  const Class& its_class = kClasses.at(a);
  const std::string norm = a == "phi2" ? "layer_norm" : "rms_norm";
  nlohmann::json config = {
      {"architectures", {its_class.name}},
      {"hidden_act", its_class.activation},
      {"num_hidden_layers", file.find_uint(a + ".block_count").value()},
      {"hidden_size", file.find_uint(a + ".embedding_length").value()},
      {"intermediate_size", file.find_uint(a + ".feed_forward_length").value()},
      {"num_attention_heads", file.find_uint(a + ".attention.head_count").value()},
      {"num_key_value_heads", file.find_uint(a + ".attention.head_count_kv").value()},
      {"max_position_embeddings", file.find_uint(a + ".context_length").value()},
      {norm + "_eps",
       file.find_float(a + ".attention.layer_" + (a == "phi2" ? "norm" : "norm_rms") + "_epsilon")
           .value()},
      {"vocab_size", file.get_tensor("token_embd.weight").n_rows()},
      {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr}};
  config["rope_theta"] = file.find_float(a + ".rope.freq_base").value_or(10000.0);
  if (const auto length = file.find_uint(a + ".attention.key_length")) config["head_dim"] = *length;
  add_own_settings(file, a, &config);
  return config;
}

// Returns the tokens as a tokenizer.json of byte-level BPE that splits texts as GPT-2 did.
inline nlohmann::json hf_byte_bpe(const gguf::File& file) {
  nlohmann::json json = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"merges", file.strings("tokenizer.ggml.merges")}}}};
  json["added_tokens"] = nlohmann::json::array();
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto types = file.ints("tokenizer.ggml.token_type");
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == 1) {
      json["model"]["vocab"][std::string(tokens[id])] = id;
    } else {
      json["added_tokens"].push_back(
          {{"id", id}, {"content", tokens[id]}, {"special", types[id] == 3}});
    }
  }
  return json;
}

// Returns the tokens as a model of SentencePiece: field 1 holds a token, field 3 says how texts are
// normalised, field 2 says that the model is BPE. Published models say that no spaces are removed,
// because they would be otherwise.
inline std::string hf_sentencepiece(const gguf::File& file,
                                    const std::string& normalizer = std::string("\x20\0", 2)) {
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto types = file.ints("tokenizer.ggml.token_type");
  const auto scores = file.floats("tokenizer.ggml.scores");
  const auto varint = [](uint64_t n) {
    std::string out;
    for (; n >= 128; n >>= 7) out += static_cast<char>(n % 128 + 128);
    return out + static_cast<char>(n);
  };
  std::string model;
  for (size_t id = 0; id < tokens.size(); ++id) {
    std::string piece = "\x0a" + varint(tokens[id].size()) + std::string(tokens[id]) + "\x15";
    piece.append(reinterpret_cast<const char*>(&scores[id]), sizeof(float));
    piece += "\x18" + varint(static_cast<uint64_t>(types[id]));
    model += "\x0a" + varint(piece.size()) + piece;
  }
  model += "\x1a" + varint(normalizer.size()) + normalizer;
  return model + "\x12\x02\x18\x02";
}

inline HfFolder hf_folder(const gguf::File& file) {
  HfFolder folder;
  folder.tensors = hf_tensors(file);
  folder.config = hf_config(file);
  if (file.get_string("tokenizer.ggml.model") == "gpt2") {
    folder.tokenizer = hf_byte_bpe(file);
  } else {
    folder.tokenizer_model = hf_sentencepiece(file);
  }
  return folder;
}

}  // namespace troika::test_support
