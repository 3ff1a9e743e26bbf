// Runs tasks on a host lane for tests.
#pragma once

#include "kernels/random_test_support.h"
#include "lanes/host/host_lane.h"

namespace troika::lanes {

// A completion for tasks that have ended when `submit` returns.
struct Done : Completion {
  void finished(Status) override {}
};

using kernels::random_floats;

// Builds an executable for prompts of n_rows, and runs it with n_tokens.
inline void run_once(HostLane& lane, const Subgraph& subgraph, int n_rows, int n_tokens,
                     const weights::Store& store, const Buffers& buffers) {
  const auto executable = lane.build(subgraph, {plan::Phase::kPrompt, n_rows}, store, buffers);
  Run run;
  run.n_tokens = n_tokens;
  Done done;
  lane.submit(*executable, run, done);
}

}  // namespace troika::lanes
