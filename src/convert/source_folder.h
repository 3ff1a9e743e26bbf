// The weights of a Hugging Face folder: one safetensors file, or several, with or without an index.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "convert/safetensors.h"

namespace troika::convert {

struct FoundTensor {
  const SourceTensor* tensor = nullptr;
  const SafetensorsFile* file = nullptr;
};

class SourceFolder {
 public:
  // Opens every file of weights: model.safetensors, or else those that the index names, or else all
  // that there are. Throws Error for a missing file, a file about which the index and
  // the folder disagree, a tensor that stands in two files, and whatever is wrong with one of the
  // files.
  explicit SourceFolder(const std::string& folder);

  // Returns null pointers where no tensor has this name.
  FoundTensor find(std::string_view name) const;
  const std::map<std::string_view, FoundTensor>& tensors() const { return tensors_; }
  uint64_t bytes() const;
  // Returns a sentence where the folder could mean two models, or has an index that cannot be used
  // and is not needed; else empty.
  const std::string& note() const { return note_; }

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, FoundTensor> tensors_;
  std::string note_;
};

}  // namespace troika::convert
