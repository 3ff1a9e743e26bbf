// The weights of a Hugging Face folder: one safetensors file or several, with an index or without.
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
  // Opens every file of weights. Throws Error for a missing file, one that the index and the folder
  // disagree about, a tensor that stands in two files, and whatever is wrong with one of them.
  explicit SourceFolder(const std::string& folder);

  // Null pointers where there is none of this name.
  FoundTensor find(std::string_view name) const;
  const std::map<std::string_view, FoundTensor>& tensors() const { return tensors_; }
  uint64_t bytes() const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, FoundTensor> tensors_;
};

}  // namespace troika::convert
