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

// A tensor of the file to write.
struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;   // as GGUF has it: the length of a row first
  std::string source;            // of the folder; empty where `values` are it
  bool is_optional = false;      // left out where the folder has no such tensor
  uint32_t n_rotated_heads = 0;  // rows of each head go from halves to pairs; 0: as they are
  float added = 0.0F;            // to every value
  std::vector<float> values{};
};

using Number = std::variant<uint32_t, float, bool, std::string>;

struct Plan {
  std::string architecture;                              // general.architecture
  std::vector<std::pair<std::string, Number>> metadata;  // keys without the architecture
  std::vector<PlannedTensor> tensors;
  uint32_t n_vocab = 0;
  bool has_space_prefix = true;  // of a SentencePiece tokenizer that says nothing about it
  std::string source_prefix;     // before every name of the folder that is used
  std::vector<std::string> unused_prefixes;  // names of the folder that may be left out
};

// Throws Error for an architecture that is not known, for numbers that cannot be, and for what this
// program would compute wrongly.
Plan plan_model(const Json& config, const std::string& path);

// The classes of models that are known, for messages.
std::string known_classes();

}  // namespace troika::convert
