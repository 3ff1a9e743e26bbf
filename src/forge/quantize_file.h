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
  std::string output;         // may not be a file of the input
  std::string type = "q8_0";  // one of file_type_names()
  int n_threads = 1;
  ProgressFunction progress{};  // counts bytes of the input; may be empty
};

// What happened to all tensors that got the same element type.
struct TypeReport {
  tensor::Type type;
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t bytes = 0;
  // The error of the decoded new values against the decoded old ones, over elements; 0 where
  // nothing changed.
  double rmse = 0;
  double max_error = 0;
  double rms = 0;  // the root mean square of the old values, to compare errors with
};

struct QuantizeReport {
  std::vector<TypeReport> types;  // in the order of the first tensor of each type
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  // Matrices that got another type than asked for, because of the length of their rows.
  std::vector<std::string> fallbacks;
};

// Converts a file. Throws Error for an input that cannot be read, an output that cannot be written,
// element types that are not supported, and weights that are not finite or too large for their new
// type; then it leaves nothing behind.
QuantizeReport quantize_file(const QuantizeOptions& options);

}  // namespace troika::forge
