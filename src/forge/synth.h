// Makes model files with the exact shapes of published models and random weights, for tests and for
// work on speed. What such models say is noise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "forge/plant_attention.h"
#include "forge/plant_sparsity.h"

namespace troika::forge {

struct SynthOptions {
  std::string like;  // a name of model::known_models()
  std::string output;
  std::string type = "q4_0";  // one of file_type_names()
  uint64_t seed = 1;
  int n_blocks = 0;          // takes the first blocks of the model only; 0: all
  SparsityLaw sparsity{};    // says how neurons fire; none: as random weights make them
  AttentionLaw attention{};  // says how much tiles of queries keep; not together with `sparsity`
  int n_threads = 1;
  ProgressFunction progress{};  // counts bytes of the output; may be empty
};

struct SynthReport {
  uint64_t n_parameters = 0;
  uint64_t n_tensors = 0;
  uint64_t bytes = 0;
  std::vector<ShareAtLength> attention{};  // what planted attention keeps; else empty
};

// Makes a file. The same options give the same file, to the byte, with any number of threads, and
// on every machine unless something is planted, which the library's sines and exponentials decide.
// Each tensor depends only on the seed and its name. Throws UsageError for unknown names, and Error
// where the output cannot be written; then it leaves nothing behind.
SynthReport synth(const SynthOptions& options);

}  // namespace troika::forge
