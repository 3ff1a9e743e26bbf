// Pairs the names that a paper and this program have for one model.
#pragma once

#include <span>
#include <string_view>

namespace troika::papers {

struct ModelName {
  const char* published;  // the paper's name
  const char* known;      // this program's name
};

// Returns the model with whose published name a row's configuration begins; null: it is not known.
inline const ModelName* published_model(std::span<const ModelName> models,
                                        std::string_view configuration) {
  for (const ModelName& model : models) {
    if (configuration.starts_with(model.published)) return &model;
  }
  return nullptr;
}

}  // namespace troika::papers
