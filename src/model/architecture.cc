#include "model/architecture.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/arch/arch.h"
#include "model/metadata.h"

namespace troika::model {
namespace {

struct Entry {
  const char* name;
  Blueprint (*build)(const Metadata& metadata);
};

constexpr Entry kArchitectures[] = {
    {"gemma", arch::gemma},
    {"llama", arch::llama},
    {"phi2", arch::phi2},
    {"qwen2", arch::qwen2},
};

constexpr Entry kShapesOnly[] = {
    {"bamboo", arch::bamboo},
    {"internlm2", arch::internlm2},
    {"phonelm", arch::phonelm},
    {"qwen3", arch::qwen3},
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

Blueprint read_shapes(const gguf::File& file) {
  const Metadata metadata(file);
  for (const Entry& entry : kShapesOnly) {
    if (metadata.architecture() == entry.name) return entry.build(metadata);
  }
  return read(file);
}

Blueprint read(const gguf::File& file) {
  const Metadata metadata(file);
  for (const Entry& entry : kArchitectures) {
    if (metadata.architecture() == entry.name) return entry.build(metadata);
  }
  throw Error(fmt::format("{}: the architecture '{}' is not supported. Supported are {}.",
                          file.path(), metadata.architecture(), known_architectures()));
}

}  // namespace troika::model
