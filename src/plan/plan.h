// The plan as plain data: what was decided about a model on a machine before anything runs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/type.h"

namespace troika::plan {

// In which form activations meet block-quantised weights.
enum class Activations : uint8_t {
  kF32,  // weights decoded exactly, float products: the judge
  kQ8,   // activations quantised in blocks of 32, whole-number products within a block
};

const char* activations_name(Activations activations);
// Throws UsageError that lists the names.
Activations activations_from_name(std::string_view name);

struct Plan {
  int n_threads = 1;
  Activations activations = Activations::kQ8;
  tensor::Type kv_type = tensor::Type::kF16;
  int context = 0;
  // The token counts for which executables are built, ascending. A batch takes the smallest that
  // holds it; longer prompts go in chunks of the largest.
  std::vector<int> shapes = {1, 8, 32, 128, 512};
  // The same for the rows whose logits are wanted.
  std::vector<int> output_shapes = {1, 8, 32};

  int chunk() const { return shapes.back(); }
};

}  // namespace troika::plan
