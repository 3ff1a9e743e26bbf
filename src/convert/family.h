// What a model of Hugging Face becomes in a GGUF file: names, shapes and order of its weights, and
// the numbers of its configuration.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "convert/config.h"

namespace troika::convert {

// A tensor of the file that will be written.
struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;  // in the order of GGUF: the length of a row first
  std::string source;           // the name in the folder; empty where `values` has the values
  bool is_optional = false;     // may be missing in the folder; then the file has no such tensor
  // The rows of each of n_rotated_heads heads go from halves to pairs; 0: rows stay as they are.
  uint32_t n_rotated_heads = 0;
  float added = 0.0F;  // is added to every value
  std::vector<float> values{};
};

using Number = std::variant<uint32_t, float, bool, std::string>;

struct ConversionPlan {
  std::string architecture;                              // general.architecture
  std::vector<std::pair<std::string, Number>> metadata;  // keys without the architecture
  std::vector<PlannedTensor> tensors;
  uint32_t n_vocab = 0;
  bool has_space_prefix = true;  // used where a SentencePiece tokenizer says nothing about it
  // Names of the folder with these prefixes may be left out.
  std::vector<std::string> unused_prefixes;
};

// Plans the file. Throws Error for an unknown architecture, for impossible numbers, and for what
// this program would compute wrongly.
ConversionPlan plan_model(const Json& config, const std::string& path);

// Returns the classes of models that are known, for messages.
std::string known_classes();

}  // namespace troika::convert
