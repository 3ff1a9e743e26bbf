#include "prepare/open_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/system.h"
#include "model/architecture.h"

namespace troika::prepare {
namespace {

// Returns the shapes of a model that is only a name; it has no weights.
std::unique_ptr<forge::HollowModel> make_hollow(const Options& options) {
  if (is_here(options) || options.phone.has_values) return nullptr;
  std::error_code ignored;
  if (std::filesystem::exists(options.model.file, ignored)) return nullptr;
  const model::KnownModel* known = model::find_known(options.model.file);
  if (known == nullptr) return nullptr;
  model::KnownModel wanted = *known;
  if (options.model.n_blocks > 0) wanted.n_layers = static_cast<uint32_t>(options.model.n_blocks);
  return std::make_unique<forge::HollowModel>(wanted, options.model.type);
}

// The memory that the process has.
struct Resident {
  size_t bytes = resident_bytes();
  size_t anonymous_bytes = resident_anonymous_bytes();  // counts bytes that belong to no file
};

// Measures memory when the tokenizer and everything else is read except the weights. Only the
// file's pages before the tensors belong to the description: mapped pages of tensors near them
// count as weights.
MemoryFigures figures_since(const Resident& before, std::optional<size_t> held_bytes,
                            const gguf::File& file) {
  MemoryFigures figures = MemoryFigures::here();
  const size_t now = figures.program_bytes;
  figures.model_bytes = held_bytes ? 0 : now - std::min(before.anonymous_bytes, now);
  figures.model_bytes += header_bytes(file);
  figures.program_bytes = held_bytes.value_or(before.bytes);
  return figures;
}

}  // namespace

std::span<const std::byte> header_of(const gguf::File::Shard& shard) {
  return shard.bytes.first(std::min<size_t>(shard.data_offset, shard.bytes.size()));
}

size_t header_bytes(const gguf::File& file) {
  size_t bytes = 0;
  for (const gguf::File::Shard& shard : file.shards()) {
    bytes += header_of(shard).size();
  }
  return bytes;
}

OpenedModel::OpenedModel(std::unique_ptr<forge::HollowModel> behind, gguf::File opened)
    : hollow(std::move(behind)),
      file(std::move(opened)),
      blueprint(model::read(file)),
      weights(file, blueprint) {}

std::unique_ptr<OpenedModel> open_model(const Options& options) {
  const Resident before;
  std::unique_ptr<forge::HollowModel> hollow = make_hollow(options);
  gguf::File file = hollow != nullptr ? hollow->open() : gguf::File::open(options.model.file);
  auto opened = std::make_unique<OpenedModel>(std::move(hollow), std::move(file));
  if (opened->hollow == nullptr) {
    opened->tokenizer = text::make_tokenizer(opened->file, {options.model.pre_tokenizer});
  }
  opened->memory = figures_since(before, options.memory.held_bytes, opened->file);
  return opened;
}

}  // namespace troika::prepare
