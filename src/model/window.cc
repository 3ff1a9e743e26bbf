#include "model/window.h"

#include <fmt/format.h>

#include <variant>

#include "base/error.h"

namespace troika::model {
namespace {

constexpr int kMostPositions = 1 << 30;
constexpr const char* kPattern = "attention.sliding_window_pattern";

}  // namespace

int read_window(const Metadata& metadata, int fallback) {
  return metadata.integer("attention.sliding_window", 0, kMostPositions, fallback);
}

std::vector<bool> read_windowed_blocks(const Metadata& metadata, int n_layers, int period) {
  std::vector<bool> windowed(static_cast<size_t>(n_layers));
  const gguf::File& file = metadata.file();
  const gguf::Value* pattern = file.find(metadata.full_key(kPattern));
  if (pattern != nullptr && std::holds_alternative<gguf::Array>(pattern->data)) {
    const std::vector<gguf::Value> listed =
        gguf::elements(std::get<gguf::Array>(pattern->data), windowed.size());
    const auto is_set = [](const gguf::Value& value) {
      const auto* u = std::get_if<uint64_t>(&value.data);
      const auto* i = std::get_if<int64_t>(&value.data);
      return (u != nullptr && *u != 0) || (i != nullptr && *i != 0);
    };
    if (listed.size() < windowed.size()) {
      throw Error(
          fmt::format("{}: '{}' lists {} blocks, but the model has {}. The file is damaged; "
                      "convert or download it again.",
                      file.path(), metadata.full_key(kPattern), listed.size(), n_layers));
    }
    for (size_t i = 0; i < windowed.size(); ++i) windowed[i] = is_set(listed[i]);
    return windowed;
  }
  period = metadata.integer(kPattern, 0, 1 << 20, period);
  for (int i = 0; i < n_layers; ++i) {
    windowed[static_cast<size_t>(i)] = period == 0 || i % period < period - 1;
  }
  return windowed;
}

}  // namespace troika::model
