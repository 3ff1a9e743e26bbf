#include "weights/file_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"

namespace troika::weights {
namespace {

using tensor::Type;

constexpr FileType kFileTypes[] = {
    {"f32", 0, Type::kF32, false},     {"f16", 1, Type::kF16, false},
    {"bf16", 32, Type::kBF16, false},  {"q4_0", 2, Type::kQ4_0, false},
    {"q5_0", 8, Type::kQ5_0, false},   {"q8_0", 7, Type::kQ8_0, false},
    {"q4_k", 14, Type::kQ4_K, false},  {"q6_k", 18, Type::kQ6_K, false},
    {"q4_k_m", 15, Type::kQ4_K, true},
};

bool is_matrix(std::string_view name, std::span<const uint64_t> shape) {
  const auto n_long = std::count_if(shape.begin(), shape.end(), [](uint64_t n) { return n > 1; });
  return n_long >= 2 && name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
         !name.ends_with("ffn_gate_inp.weight");
}

// N of "blk.N.…"; 0 for other names.
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// Errors in the first and last layers cost the most; between them every third layer is a
// compromise.
bool is_sensitive_layer(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

Type mixed_type(Type most, std::string_view name, const ModelFacts& facts) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name == "output.weight") return Type::kQ6_K;
  if (name == "token_embd.weight") return facts.tied_embeddings ? Type::kQ6_K : most;
  // With eight experts the attention is a small part of the file.
  const bool small_attention = facts.n_experts == 8;
  const bool sensitive = is_sensitive_layer(layer_of(name), facts.n_layers);
  if (is("attn_v.weight") || is("attn_qkv.weight")) {
    if (small_attention) return Type::kQ8_0;
    return sensitive ? Type::kQ6_K : most;
  }
  if (is("attn_k.weight") && small_attention) return Type::kQ8_0;
  if (is("attn_output.weight") && small_attention) return Type::kQ6_K;
  if (is("ffn_down")) return sensitive ? Type::kQ6_K : most;
  return most;
}

Type that_fits(Type type, uint64_t row_length) {
  if (row_length % tensor::type_info(type).block_length == 0) return type;
  if (type == Type::kQ4_K) type = Type::kQ5_0;
  if (type == Type::kQ6_K) type = Type::kQ8_0;
  return row_length % tensor::type_info(type).block_length == 0 ? type : Type::kF16;
}

}  // namespace

std::span<const FileType> file_types() { return kFileTypes; }

const FileType& get_file_type(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::string names;
  for (const FileType& type : kFileTypes) {
    if (type.name == lower) return type;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  }
  throw UsageError(fmt::format("There is no file type \"{}\"; known are {}.", name, names));
}

Type choose_type(const FileType& file_type, std::string_view name, std::span<const uint64_t> shape,
                 const ModelFacts& facts) {
  if (!is_matrix(name, shape)) return Type::kF32;
  const Type wanted =
      file_type.is_mix ? mixed_type(file_type.matrices, name, facts) : file_type.matrices;
  return that_fits(wanted, shape[0]);
}

}  // namespace troika::weights
