#include "forge/copy_file.h"

namespace troika::forge {

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
  // The version of the block formats; 2 since they have been as they are.
  writer.add_uint32("general.quantization_version", 2);
}

}  // namespace troika::forge
