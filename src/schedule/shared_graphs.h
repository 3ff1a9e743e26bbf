// What chunks of a prompt share: the shape of most subgraphs does not depend on where a chunk
// stands (N2).
#pragma once

#include "plan/plan.h"
#include "schedule/graphs.h"

namespace troika::schedule {

struct SharedGraphs {
  int n_subgraphs = 0;  // counts subgraphs of the blocks
  int n_static = 0;     // counts the static ones among them, which chunks share
  size_t weight_bytes = 0;
  // The bytes of one chunk's buffers if the result of each op had a buffer of its own: for static
  // subgraphs, and for attention.
  size_t static_buffer_bytes = 0;
  size_t dynamic_buffer_bytes = 0;
};

SharedGraphs count_shared(const model::Blueprint& blueprint, const weights::Store& weights,
                          const plan::Plan& plan);

}  // namespace troika::schedule
