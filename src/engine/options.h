// What a user may ask of an engine.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"
#include "tensor/type.h"

namespace troika::engine {

struct Options {
  std::string model;  // a GGUF file
  int n_threads = 0;  // 0: all cores this process may use
  std::string plan;  // a plan file; then threads, lanes, placements, context and types come from it
  std::string lanes;                    // "0,1" or "0;1"; empty: one lane of n_threads
  std::vector<std::string> placements;  // "ffn=1", "attention@2=0": see plan::Placement
  int context = 0;                      // 0: what model, memory and common sense allow
  plan::Activations activations = plan::Activations::kQ8;
  std::string prefill = "auto";  // or a name of plan::Prefill
  size_t packed_bytes = 0;  // most bytes of packed copies of weights; 0: half of the free memory
  // Told of the slow parts of loading.
  ProgressFunction progress;
  tensor::Type kv_type = tensor::Type::kF16;
  std::string kernels;        // the fastest implementation allowed, "" for any
  std::string pre_tokenizer;  // overrides what the file names
};

// "f32", "f16" or "q8_0"; throws UsageError.
tensor::Type kv_type_from_name(const std::string& name);

}  // namespace troika::engine
