#include "model/architecture.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/os_error.h"
#include "model/arch/arch.h"
#include "model/metadata.h"
#include "model/unread_tensors.h"

namespace troika::model {
namespace {

struct Entry {
  const char* name;
  Blueprint (*build)(const Metadata& metadata);
};

constexpr Entry kArchitectures[] = {
    {"bamboo", arch::bamboo},     {"gemma", arch::gemma},         {"gemma2", arch::gemma2},
    {"gemma3", arch::gemma3},     {"internlm2", arch::internlm2}, {"llama", arch::llama},
    {"phi2", arch::phi2},         {"phi3", arch::phi3},           {"phonelm", arch::phonelm},
    {"qwen2", arch::qwen2},       {"qwen2moe", arch::qwen2moe},   {"qwen3", arch::qwen3},
    {"qwen3moe", arch::qwen3moe},
};

}  // namespace

std::string known_architectures() {
  std::string names;
  for (const Entry& entry : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

Blueprint read(const gguf::File& file) {
  const Metadata metadata(file);
  for (const Entry& entry : kArchitectures) {
    if (metadata.architecture() != entry.name) continue;
    Blueprint blueprint = entry.build(metadata);
    check_all_read(file, blueprint);
    return blueprint;
  }
  throw Error(
      fmt::format("{}: the architecture {} is not supported. Supported are {}. Choose a model of "
                  "one of these; many are published as GGUF files.",
                  file.path(), troika::quoted(metadata.architecture()), known_architectures()));
}

}  // namespace troika::model
