// Converts a model file to other element types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tensor/type.h"

namespace troika::forge {

struct QuantizeOptions {
  std::string input;
  std::string output;         // may be the same path: it is replaced when the new file is complete
  std::string type = "q8_0";  // a name of file_types()
  int n_threads = 1;
  ProgressFunction progress{};  // in bytes of the input; may be empty
};

// What happened to all tensors that got one element type.
struct TypeReport {
  tensor::Type type;
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t bytes = 0;
  // The errors of the decoded new values against the decoded old ones, over elements; 0 where
  // nothing changed.
  double rmse = 0;
  double max_error = 0;
  double rms = 0;  // of the old values, to compare the errors with
};

struct QuantizeReport {
  std::vector<TypeReport> types;  // in the order of the first tensor of each
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  // Matrices that got another type than asked for because of the length of their rows.
  std::vector<std::string> fallbacks;
};

// Throws Error for an input that cannot be read, an output that cannot be written, element types
// that are not supported, and weights that are not finite. Leaves nothing behind then.
QuantizeReport quantize_file(const QuantizeOptions& options);

}  // namespace troika::forge
