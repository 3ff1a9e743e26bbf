// Opens a model's file and reads what it says of the model, and what memory that leaves.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "forge/hollow.h"
#include "gguf/file.h"
#include "model/blueprint.h"
#include "prepare/memory.h"
#include "prepare/options.h"
#include "text/tokenizer.h"
#include "weights/store.h"

namespace troika::prepare {

struct OpenedModel {
  // Weights point to the file and to the blueprint, so this is never copied or moved.
  OpenedModel(std::unique_ptr<forge::HollowModel> behind, gguf::File opened);
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  std::unique_ptr<forge::HollowModel> hollow;  // shapes of a model that is a name, or null
  gguf::File file;
  model::Blueprint blueprint;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null for a model that is only a name
  weights::Store weights;                      // nothing of the weights is read yet
  MemoryFigures memory;                        // as they are when all but the weights is read
};

// Returns what stands before the tensors in one file of a model.
std::span<const std::byte> header_of(const gguf::File::Shard& shard);
// Returns the bytes of a model's files that come before their tensors.
size_t header_bytes(const gguf::File& file);

// Throws Error for whatever is wrong with the file.
std::unique_ptr<OpenedModel> open_model(const Options& options);

}  // namespace troika::prepare
