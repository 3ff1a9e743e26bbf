#include "forge/copy_file.h"

namespace troika::forge {

uint64_t alignment_of_copy(const gguf::File& file) {
  constexpr uint64_t kUsual = 32;
  return file.alignment() <= gguf::kMostWrittenAlignment ? file.alignment() : kUsual;
}

void copy_metadata(const gguf::File& file, uint32_t file_type, gguf::Writer& writer,
                   std::string_view without) {
  for (const gguf::File::Entry& entry : file.metadata()) {
    if (entry.key == "general.alignment" || entry.key == "general.file_type" ||
        entry.key == "general.quantization_version" || entry.key.starts_with("split.") ||
        entry.key.starts_with(without)) {
      continue;
    }
    writer.add_value(entry.key, entry.value);
  }
  writer.add_uint32("general.file_type", file_type);
  // 2 is the version of the block formats since they have their present form.
  writer.add_uint32("general.quantization_version", 2);
}

}  // namespace troika::forge
