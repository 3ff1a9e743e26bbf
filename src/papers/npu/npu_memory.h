// Computes what graphs and weights of llm.npu take in memory: shared by all chunks, or of each
// chunk's own (N2); and the float rows of its outliers (N5).
#pragma once

#include <string>

namespace troika::papers {

struct NpuMemory {
  int n_subgraphs = 0;        // counts the subgraphs of the blocks
  int n_shared = 0;           // counts the subgraphs that all chunks share
  double model_bytes = 0.0;   // the bytes of all weights, in 8 bits
  double weight_bytes = 0.0;  // the bytes of the products' weights
  // The bytes of one chunk's buffers: one for each op's output.
  double buffer_bytes = 0.0;
  double unshared_bytes = 0.0;  // the bytes where each chunk has graphs of its own
  double shared_bytes = 0.0;
  double shadow_bytes = 0.0;  // the bytes of hot channels' float rows

  double saved_bytes() const { return unshared_bytes - shared_bytes; }
  double total_bytes() const { return model_bytes + buffer_bytes + shadow_bytes; }
};

// `folder` holds the phones. Throws Error for a model that is not known.
NpuMemory npu_memory(const std::string& folder, const std::string& model, int n_prompt);

}  // namespace troika::papers
