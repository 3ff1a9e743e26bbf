#include "forge/file_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::forge {
namespace {

using tensor::Type;

// The layers that get the better type of a pair.
enum class Layers {
  kNone,
  kFirst2,
  kFirst4,
  kFirstEighth,
  kFirstSixteenth,
  kSensitive,    // the first and last eighth, and every third layer between them: a compromise
  kSharedHeads,  // all layers, if four query heads or more share keys and values
};

struct TypeChoice {
  Type usual;
  Type better = usual;
  Layers layers = Layers::kNone;
};

}  // namespace

// The types of those matrices that differ from most of a mix.
struct Mix {
  TypeChoice values;  // for attn_v and attn_qkv
  TypeChoice down;    // for ffn_down
  Type attention_output;
  Type attention_output_of_8_experts;
};

namespace {

// In this mix matrices of experts are MXFP4, and everything else is Q8_0.
constexpr Mix kExpertsOnly = {};

constexpr Mix kQ2K = {
    {Type::kQ3_K, Type::kQ4_K, Layers::kSharedHeads}, {Type::kQ3_K}, Type::kQ3_K, Type::kQ5_K};
constexpr Mix kQ3KSmall = {{Type::kQ3_K}, {Type::kQ3_K}, Type::kQ3_K, Type::kQ5_K};
constexpr Mix kQ3KMedium = {{Type::kQ4_K, Type::kQ5_K, Layers::kFirst2},
                            {Type::kQ4_K, Type::kQ5_K, Layers::kFirstSixteenth},
                            Type::kQ4_K,
                            Type::kQ5_K};
constexpr Mix kQ3KLarge = {{Type::kQ5_K}, {Type::kQ5_K}, Type::kQ5_K, Type::kQ3_K};
constexpr Mix kQ4KSmall = {{Type::kQ4_K, Type::kQ5_K, Layers::kFirst4},
                           {Type::kQ4_K, Type::kQ5_K, Layers::kFirstEighth},
                           Type::kQ4_K,
                           Type::kQ5_K};
constexpr Mix kQ4KMedium = {{Type::kQ4_K, Type::kQ6_K, Layers::kSensitive},
                            {Type::kQ4_K, Type::kQ6_K, Layers::kSensitive},
                            Type::kQ4_K,
                            Type::kQ5_K};
constexpr Mix kQ5KSmall = {{Type::kQ5_K}, {Type::kQ5_K}, Type::kQ5_K, Type::kQ5_K};
constexpr Mix kQ5KMedium = {{Type::kQ5_K, Type::kQ6_K, Layers::kSensitive},
                            {Type::kQ5_K, Type::kQ6_K, Layers::kSensitive},
                            Type::kQ5_K,
                            Type::kQ5_K};
constexpr Mix kIQ4NL = {{Type::kIQ4_NL, Type::kQ5_K, Layers::kSharedHeads},
                        {Type::kIQ4_NL, Type::kQ5_K, Layers::kFirstEighth},
                        Type::kIQ4_NL,
                        Type::kQ5_K};
constexpr Mix kIQ4XS = {{Type::kIQ4_XS, Type::kQ5_K, Layers::kSharedHeads},
                        {Type::kIQ4_XS, Type::kQ5_K, Layers::kFirstEighth},
                        Type::kIQ4_XS,
                        Type::kQ5_K};

constexpr FileType kFileTypes[] = {
    {"f32", 0, Type::kF32},
    {"f16", 1, Type::kF16},
    {"bf16", 32, Type::kBF16},
    {"q4_0", 2, Type::kQ4_0},
    {"q4_1", 3, Type::kQ4_1},
    {"q5_0", 8, Type::kQ5_0},
    {"q5_1", 9, Type::kQ5_1},
    {"q8_0", 7, Type::kQ8_0},
    {"q3_k", 11, Type::kQ3_K},
    {"q4_k", 14, Type::kQ4_K},
    {"q5_k", 16, Type::kQ5_K},
    {"q6_k", 18, Type::kQ6_K},
    {"mxfp4", 38, Type::kMXFP4},
    {"q2_k", 10, Type::kQ2_K, &kQ2K},
    {"q3_k_s", 11, Type::kQ3_K, &kQ3KSmall},
    {"q3_k_m", 12, Type::kQ3_K, &kQ3KMedium},
    {"q3_k_l", 13, Type::kQ3_K, &kQ3KLarge},
    {"q4_k_s", 14, Type::kQ4_K, &kQ4KSmall},
    {"q4_k_m", 15, Type::kQ4_K, &kQ4KMedium},
    {"q5_k_s", 16, Type::kQ5_K, &kQ5KSmall},
    {"q5_k_m", 17, Type::kQ5_K, &kQ5KMedium},
    {"iq4_nl", 25, Type::kIQ4_NL, &kIQ4NL},
    {"iq4_xs", 30, Type::kIQ4_XS, &kIQ4XS},
    {"mxfp4_moe", 38, Type::kMXFP4, &kExpertsOnly},
};

bool is_matrix(std::string_view name, std::span<const uint64_t> shape) {
  const auto n_long = std::count_if(shape.begin(), shape.end(), [](uint64_t n) { return n > 1; });
  return n_long >= 2 && name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
         !name.ends_with("ffn_gate_inp.weight");
}

// Returns N of "blk.N.…"; 0 for other names.
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

bool is_better(Layers layers, uint32_t layer, const ModelFacts& facts) {
  const uint32_t n = facts.n_layers, eighth = n / 8;
  switch (layers) {
    case Layers::kNone:
      return false;
    case Layers::kFirst2:
      return layer < 2;
    case Layers::kFirst4:
      return layer < 4;
    case Layers::kFirstEighth:
      return layer < eighth;
    case Layers::kFirstSixteenth:
      return layer < n / 16;
    case Layers::kSensitive:
      return layer < eighth || layer >= 7 * n / 8 || (layer - eighth) % 3 == 2;
    case Layers::kSharedHeads:
      return facts.heads_per_kv >= 4;
  }
  return false;
}

Type value_type(const TypeChoice& choice, uint32_t layer, const ModelFacts& facts) {
  if (facts.n_experts == 8) return Type::kQ8_0;  // values are a small part of a model of 8 experts
  const Type type = is_better(choice.layers, layer, facts) ? choice.better : choice.usual;
  // In models of 70 thousand million weights eight heads share these matrices, so they are small.
  const bool is_70b = facts.n_layers == 80 && facts.heads_per_kv > 1;
  return is_70b && (type == Type::kQ3_K || type == Type::kQ4_K) ? Type::kQ5_K : type;
}

Type mixed_type(const FileType& file_type, std::string_view name, bool is_of_experts,
                const ModelFacts& facts) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (file_type.mix == &kExpertsOnly) return is_of_experts ? file_type.matrices : Type::kQ8_0;
  const Mix& mix = *file_type.mix;
  const uint32_t layer = layer_of(name);
  if (name == "output.weight") return Type::kQ6_K;
  if (name == "token_embd.weight") {
    return facts.tied_embeddings ? Type::kQ6_K : file_type.matrices;
  }
  if (is("attn_v.weight") || is("attn_qkv.weight")) return value_type(mix.values, layer, facts);
  if (is("attn_k.weight") && facts.n_experts == 8) return Type::kQ8_0;
  if (is("attn_output.weight")) {
    return facts.n_experts == 8 ? mix.attention_output_of_8_experts : mix.attention_output;
  }
  if (is("ffn_down")) {
    return is_better(mix.down.layers, layer, facts) ? mix.down.better : mix.down.usual;
  }
  return file_type.matrices;
}

Type that_fits(Type type, uint64_t row_length) {
  const auto fits = [&] { return row_length % tensor::type_info(type).block_length == 0; };
  if (fits()) return type;
  switch (type) {
    case Type::kQ2_K:
    case Type::kQ3_K:
      type = Type::kQ4_0;
      break;
    case Type::kQ4_K:
      type = Type::kQ5_0;
      break;
    case Type::kQ5_K:
      type = Type::kQ5_1;
      break;
    case Type::kQ6_K:
      type = Type::kQ8_0;
      break;
    case Type::kIQ4_XS:
      type = Type::kIQ4_NL;
      break;
    default:
      break;
  }
  return fits() ? type : Type::kF16;
}

}  // namespace

const FileType& get_file_type(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const FileType& type : kFileTypes) {
    if (type.name == lower) return type;
  }
  throw UsageError(fmt::format("There is no file type {}; known are {}.", troika::quoted(name),
                               file_type_names()));
}

std::string file_type_names() {
  std::string names;
  bool is_mix = false;
  for (const FileType& type : kFileTypes) {
    if (!names.empty()) names += ", ";
    if (type.mix != nullptr && !std::exchange(is_mix, true)) names += "and the mixes ";
    names += type.name;
  }
  return names;
}

Type choose_type(const FileType& file_type, std::string_view name, std::span<const uint64_t> shape,
                 const ModelFacts& facts) {
  if (!is_matrix(name, shape)) return Type::kF32;
  const bool is_of_experts = shape.size() > 2 && shape[2] > 1;
  const Type wanted = file_type.mix != nullptr ? mixed_type(file_type, name, is_of_experts, facts)
                                               : file_type.matrices;
  return that_fits(wanted, shape[0]);
}

}  // namespace troika::forge
