// A GPU that has the whole model, as PPL-OpenCL, MLC and TFLite use it.
#pragma once

#include "prepare/options.h"

namespace troika::papers {

// Fills the queue of the GPU where it is the only processor. Section 3.1 of HeteroLLM says of GPUs
// that kernels are queued while the one before runs, so that submitting them costs nearly nothing;
// only a synchronisation with another processor empties the queue, and here is no other.
inline void fill_queue_of_gpu_alone(prepare::Options* options) {
  constexpr int kFullQueue = 1024;  // a prompt has fewer tasks
  const std::vector<lanes::Processor>& processors = options->phone.processors;
  if (processors.size() == 1 && processors.front() == lanes::Processor::kGpu) {
    options->phone.queue_depth = kFullQueue;
  }
}

}  // namespace troika::papers
