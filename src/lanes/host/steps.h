// The steps of a host executable: an op with everything that is known before the run.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/team.h"
#include "kernels/kernels.h"
#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::lanes {

// One op, bound to its weights and buffers. Steps run in order; workers meet between them where one
// may need what another has made.
struct Step {
  model::Op op;
  model::Rope rope;  // kRope: pairing and dimensions only
  const float* inputs[3] = {};
  float* output = nullptr;
  int input_width = 0;
  int output_width = 0;
  int head_dim = 0;
  bool per_output = false;  // rows are wanted outputs, not tokens
  weights::Matrix matrix{};
  const float* weight_vector = nullptr;
  const float* bias = nullptr;
  // kLinear: null where the product takes float activations.
  kernels::MatmulQ8* matmul_q8 = nullptr;
  kernels::MatmulF32* matmul_f32 = nullptr;
  // kLinear with matmul_q8: the input must be quantised first; false where the step before has
  // already done so.
  bool quantises_input = false;
  // The workers meet before this step.
  bool meets_before = false;
};

std::vector<Step> make_steps(const Subgraph& subgraph, const weights::Store& weights,
                             const Buffers& buffers, const kernels::Table& kernels,
                             plan::Activations activations);

// Counts the items of one step that one worker has begun, its own or another's. On a cache line of
// its own, because its worker counts often.
struct alignas(64) ItemCounter {
  std::atomic<int64_t> n_begun{0};
};

// What the workers of one run share.
struct StepContext {
  const kernels::Table& kernels;
  const Run& run;
  Team& team;
  std::byte* quantised;    // (n_rows, q8_row_bytes)
  ItemCounter* counters;   // (n_steps, team.size())
  float* attention_parts;  // attention_parts_floats
};

// Into how many segments the attention of each (token, head) is divided between the workers; 0
// where they share whole ones.
size_t n_shared_segments(const Run& run, int n_workers);
// Room for what these come to.
size_t attention_parts_floats(const Step& step, const Run& run, int n_workers);

// The part of a step that falls to one worker.
void run_step(const Step& step, const StepContext& context, int step_index, int worker);

}  // namespace troika::lanes
