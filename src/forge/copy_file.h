// What all programs need that make a model file out of another one.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace troika::forge {

// Copies all metadata except that about the file's own form (its alignment, its parts), and says
// that its matrices are of this type (a FileType's number). Keys that begin with `without` are left
// out.
void copy_metadata(const gguf::File& file, uint32_t file_type, gguf::Writer& writer,
                   std::string_view without = "general.alignment");

}  // namespace troika::forge
