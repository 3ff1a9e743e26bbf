#include "prepare/open_model.h"

#include <filesystem>

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

}  // namespace

OpenedModel::OpenedModel(std::unique_ptr<forge::HollowModel> behind, gguf::File opened)
    : hollow(std::move(behind)),
      file(std::move(opened)),
      blueprint(model::read(file)),
      weights(file, blueprint) {}

std::unique_ptr<OpenedModel> open_model(const Options& options) {
  std::unique_ptr<forge::HollowModel> hollow = make_hollow(options);
  gguf::File file = hollow != nullptr ? hollow->open() : gguf::File::open(options.model.file);
  auto opened = std::make_unique<OpenedModel>(std::move(hollow), std::move(file));
  if (opened->hollow == nullptr) {
    opened->tokenizer = text::make_tokenizer(opened->file, {options.model.pre_tokenizer});
  }
  return opened;
}

}  // namespace troika::prepare
