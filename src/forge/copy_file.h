// What all programs need that make a model file out of another one.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace troika::forge {

// Returns the alignment of a file that is made out of this one: its own, unless it is larger than
// any page. A file of few bytes could claim one that fills the disk with zeros.
uint64_t alignment_of_copy(const gguf::File& file);

// Copies all metadata except that about the file's own form (its alignment, its parts), and says
// that its matrices are of this type (a FileType's number). Keys that begin with `without` are left
// out.
void copy_metadata(const gguf::File& file, uint32_t file_type, gguf::Writer& writer,
                   std::string_view without = "general.alignment");

}  // namespace troika::forge
