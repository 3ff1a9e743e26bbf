// What chunks of a prompt share because the shape of most subgraphs does not depend on where a
// chunk stands (N2).
#pragma once

#include "plan/plan.h"
#include "schedule/graphs.h"

namespace troika::schedule {

struct SharedGraphs {
  int n_subgraphs = 0;  // of the blocks
  int n_static = 0;     // of them: shared
  size_t weight_bytes = 0;
  // What buffers of one chunk would take, were there one for what each op gives: of static
  // subgraphs, of attention.
  size_t static_buffer_bytes = 0;
  size_t dynamic_buffer_bytes = 0;
};

SharedGraphs count_shared(const model::Blueprint& blueprint, const weights::Store& weights,
                          const plan::Plan& plan);

}  // namespace troika::schedule
