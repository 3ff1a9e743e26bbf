// Model files without weights: header and shapes are those of a published model, and the data are
// zeros that take no memory. They serve plans and timing, for models of any size.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "model/known.h"

namespace troika::forge {

class HollowModel {
 public:
  // `type` is one of file_type_names(). Throws UsageError for unknown names, and Error where the
  // system gives no addresses for so large a model.
  HollowModel(const model::KnownModel& model, std::string_view type);
  HollowModel(const HollowModel&) = delete;
  HollowModel& operator=(const HollowModel&) = delete;

  // Opens the model as a file whose path is the name of the model. REQUIRES: this object outlives
  // the file.
  gguf::File open() const;

 private:
  std::string name_;
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* begin) const;
  };

  std::unique_ptr<std::byte, Unmap> begin_;
  size_t bytes_ = 0;
};

}  // namespace troika::forge
