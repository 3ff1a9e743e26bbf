// Makes a GGUF file out of a model folder of Hugging Face.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/progress.h"

namespace troika::convert {

struct ConvertOptions {
  std::string folder;
  std::string output;
  std::string type = "f16";  // one of forge::file_type_names()
  std::string pre{};  // the pre-tokenizer of byte-level BPE; empty: it is found in tokenizer.json
  int n_threads = 1;
  ProgressFunction progress{};  // counts bytes of the tensors that are read; may be empty
  // Gets sentences about what the file may do otherwise than the folder, without line ends, before
  // weights are read; may be empty.
  std::function<void(const std::string& sentence)> note{};
};

struct ConvertReport {
  std::string architecture;
  std::string name;
  uint64_t n_tensors = 0;
  uint64_t n_tokens = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// Converts a folder. Weights are read row by row through memory maps, so that memory does not grow
// with the model. Throws Error for a folder that is incomplete, contradicts itself or is of an
// unknown kind, for weights that are not finite, and where the output cannot be written; then it
// leaves nothing behind.
ConvertReport convert_folder(const ConvertOptions& options);

}  // namespace troika::convert
