#include "model/metadata.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/os_error.h"
#include "model/limits.h"

namespace troika::model {
namespace {

int vocabulary_size(const Metadata& metadata) {
  const gguf::File& file = metadata.file();
  if (const gguf::Value* tokens = file.find("tokenizer.ggml.tokens")) {
    if (const auto* array = std::get_if<gguf::Array>(&tokens->data)) {
      if (array->count == 0 || array->count > kMostVocabulary) {
        throw Error(
            fmt::format("{}: the vocabulary has {} tokens, which no model has. The file "
                        "is damaged; convert or download it again.",
                        file.path(), array->count));
      }
      return static_cast<int>(array->count);
    }
  }
  return metadata.integer("vocab_size", 1, kMostVocabulary);
}

void check_range(const Metadata& metadata, const char* key, double value, double lowest,
                 double highest) {
  if (value >= lowest && value <= highest) return;
  throw Error(
      fmt::format("{}: '{}' is {}, but must lie between {} and {}. The file is damaged; convert or "
                  "download it again.",
                  metadata.file().path(), metadata.full_key(key), value, lowest, highest));
}

void read_rope_scaling(const Metadata& metadata, Rope* rope) {
  const std::string kind = metadata.text("rope.scaling.type", "none");
  // Old files have another key.
  const char* const factor_key =
      metadata.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  rope->factor = metadata.number(factor_key, 1.0);
  if (rope->factor == 0.0) rope->factor = 1.0;  // some files write 0 for "not scaled"
  check_range(metadata, factor_key, rope->factor, 1e-3, 1e6);
  const char* attention_key = "rope.scaling.attn_factor";
  rope->attention_factor = metadata.number(attention_key, 1.0);
  rope->original_context = metadata.integer("rope.scaling.original_context_length", 1, kMostContext,
                                            metadata.integer("context_length", 1, kMostContext));
  // A factor without a type means linear, as in old files. The divisors of "longrope" are tensors.
  if (kind == "linear" || kind == "longrope" ||
      (kind == "none" && !metadata.has("rope.scaling.type"))) {
    rope->scaling = rope->factor == 1.0 ? RopeScaling::kNone : RopeScaling::kLinear;
  } else if (kind == "yarn") {
    rope->scaling = RopeScaling::kYarn;
    rope->yarn_beta_fast = metadata.number("rope.scaling.yarn_beta_fast", 32.0);
    rope->yarn_beta_slow = metadata.number("rope.scaling.yarn_beta_slow", 1.0);
    rope->yarn_ext_factor = metadata.number("rope.scaling.yarn_ext_factor", 1.0);
    // Yarn divides by the logarithm of the base, and takes the logarithms of the betas.
    check_range(metadata, "rope.freq_base", rope->base, 1.5, 1e30);
    check_range(metadata, "rope.scaling.yarn_beta_fast", rope->yarn_beta_fast, 1e-6, 1e6);
    check_range(metadata, "rope.scaling.yarn_beta_slow", rope->yarn_beta_slow, 1e-6, 1e6);
    if (metadata.has("rope.scaling.yarn_attn_factor")) {
      attention_key = "rope.scaling.yarn_attn_factor";
      rope->attention_factor = metadata.number(attention_key);
    }
  } else if (kind != "none") {
    throw Error(
        fmt::format("{}: rope scaling {} is not known. Known are none, linear, yarn and "
                    "longrope; use a model that scales by one of these.",
                    metadata.file().path(), troika::quoted(kind)));
  }
  check_range(metadata, attention_key, rope->attention_factor, 1e-3, 1e3);
}

// Refuses what any architecture may ask for, and no op does.
void check_kind(const Metadata& metadata) {
  const auto refuse = [&](const char* key, const std::string& problem) {
    throw Error(fmt::format("{}: '{}' says that {}", metadata.file().path(), metadata.full_key(key),
                            problem));
  };
  if (!metadata.flag("attention.causal", true)) {
    refuse("attention.causal",
           "tokens look at those behind them, too: the model reads texts and writes none. Use a "
           "model that writes.");
  }
  if (metadata.integer("expert_group_count", 0, kMostExperts, 0) > 1) {
    refuse("expert_group_count",
           "groups of experts are chosen before experts are; this program chooses among all of "
           "them. Use another model.");
  }
}

Rope read_rope(const Metadata& metadata, int head_dim) {
  Rope rope;
  rope.n_dims = metadata.integer("rope.dimension_count", 0, head_dim, head_dim);
  if (rope.n_dims % 2 != 0) {
    throw Error(fmt::format(
        "{}: '{}' is {}, but rotated dimensions come in pairs. The file is "
        "damaged; convert or download it again.",
        metadata.file().path(), metadata.full_key("rope.dimension_count"), rope.n_dims));
  }
  rope.base = read_rope_base(metadata, "rope.freq_base", 10000.0);
  read_rope_scaling(metadata, &rope);
  return rope;
}

}  // namespace

Metadata::Metadata(const gguf::File& file)
    : file_(file), architecture_(file.get_string("general.architecture")) {}

std::string Metadata::full_key(std::string_view key) const {
  return fmt::format("{}.{}", architecture_, key);
}

bool Metadata::has(std::string_view key) const { return file_.find(full_key(key)) != nullptr; }

bool Metadata::has_tensor(const std::string& name) const {
  return file_.find_tensor(name) != nullptr;
}

int Metadata::integer(std::string_view key, int lowest, int highest,
                      std::optional<int> fallback) const {
  const std::string name = full_key(key);
  if (file_.find(name) == nullptr && fallback) return *fallback;
  const std::optional<int64_t> value = file_.find_int(name);
  if (!value) {
    throw Error(
        fmt::format("{}: the metadata key '{}' is missing, so the model cannot be built. "
                    "Convert or download the file again.",
                    file_.path(), name));
  }
  if (*value < lowest || *value > highest) {
    throw Error(
        fmt::format("{}: '{}' is {}, but must lie between {} and {}. The file is damaged; "
                    "convert or download it again.",
                    file_.path(), name, *value, lowest, highest));
  }
  return static_cast<int>(*value);
}

double Metadata::number(std::string_view key, std::optional<double> fallback) const {
  const std::string name = full_key(key);
  const std::optional<double> value = file_.find_float(name);
  if (!value && fallback) return *fallback;
  if (!value || !std::isfinite(*value)) {
    throw Error(
        fmt::format("{}: the metadata key '{}' is missing or not finite, so the model "
                    "cannot be built. Convert or download the file again.",
                    file_.path(), name));
  }
  return *value;
}

bool Metadata::flag(std::string_view key, bool fallback) const {
  return file_.find_bool(full_key(key)).value_or(fallback);
}

std::string Metadata::text(std::string_view key, std::string_view fallback) const {
  return std::string(file_.find_string(full_key(key)).value_or(fallback));
}

double read_rope_base(const Metadata& metadata, const char* key, double fallback) {
  const double base = metadata.number(key, fallback);
  check_range(metadata, key, base, 1e-3, 1e30);
  return base;
}

Blueprint read_sizes(const Metadata& metadata) {
  check_kind(metadata);
  Blueprint b;
  b.architecture = metadata.architecture();
  b.name = std::string(metadata.file().find_string("general.name").value_or(""));
  b.n_layers = metadata.integer("block_count", 1, kMostLayers);
  b.width = metadata.integer("embedding_length", 1, kMostWidth);
  b.ffn_width = metadata.integer("feed_forward_length", 1, kMostWidth);
  b.n_heads = metadata.integer("attention.head_count", 1, kMostWidth);
  b.n_kv_heads = metadata.integer("attention.head_count_kv", 1, b.n_heads, b.n_heads);
  if (b.n_heads % b.n_kv_heads != 0) {
    throw Error(
        fmt::format("{}: {} attention heads cannot share {} key/value heads evenly. The "
                    "file is damaged; convert or download it again.",
                    metadata.file().path(), b.n_heads, b.n_kv_heads));
  }
  b.head_dim =
      metadata.integer("attention.key_length", 1, kMostWidth / b.n_heads, b.width / b.n_heads);
  const int value_dim = metadata.integer("attention.value_length", 1, kMostWidth, b.head_dim);
  if (b.head_dim < 1 || value_dim != b.head_dim) {
    throw Error(
        fmt::format("{}: keys have {} and values {} elements per head; only equal lengths "
                    "above 0 are supported. Use another model.",
                    metadata.file().path(), b.head_dim, value_dim));
  }
  b.n_experts = metadata.integer("expert_count", 0, kMostExperts, 0);
  if (b.n_experts > 0) b.n_experts_used = metadata.integer("expert_used_count", 1, b.n_experts);
  b.trained_context = metadata.integer("context_length", 1, kMostContext);
  b.n_vocab = vocabulary_size(metadata);
  b.ropes = {read_rope(metadata, b.head_dim)};
  return b;
}

}  // namespace troika::model
