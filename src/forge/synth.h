// Model files with the exact shapes of published models and random weights, for work on speed and
// for tests. What they say is noise.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "forge/plant_sparsity.h"

namespace troika::forge {

struct SynthOptions {
  std::string like;  // a name of model::known_models()
  std::string output;
  std::string type = "q4_0";  // a name of file_types()
  uint64_t seed = 1;
  SparsityLaw sparsity{};  // by which neurons fire; none: as they happen to
  int n_threads = 1;
  ProgressFunction progress{};  // in bytes of the output; may be empty
};

struct SynthReport {
  uint64_t n_parameters = 0;
  uint64_t n_tensors = 0;
  uint64_t bytes = 0;
};

// The same options give the same file, to the byte, on every machine and with any number of
// threads. Each tensor depends on the seed and its name alone. Throws Error where the output cannot
// be written, and leaves nothing behind then; UsageError for unknown names.
SynthReport synth(const SynthOptions& options);

}  // namespace troika::forge
