// A model as its file describes it.
#pragma once

#include <memory>

#include "forge/hollow.h"
#include "gguf/file.h"
#include "model/blueprint.h"
#include "prepare/options.h"
#include "text/tokenizer.h"
#include "weights/store.h"

namespace troika::prepare {

struct OpenedModel {
  // The weights refer to the file and to the blueprint, so that all of it stays in its place.
  OpenedModel(std::unique_ptr<forge::HollowModel> behind, gguf::File opened);
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  std::unique_ptr<forge::HollowModel> hollow;  // behind a model that is only a name, else null
  gguf::File file;
  model::Blueprint blueprint;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null for a model that is only a name
  weights::Store weights;                      // nothing of them is read yet
};

// Throws Error for whatever is wrong with the file.
std::unique_ptr<OpenedModel> open_model(const Options& options);

}  // namespace troika::prepare
