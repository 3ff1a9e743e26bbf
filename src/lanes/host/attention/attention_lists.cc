#include "lanes/host/attention/attention_lists.h"

#include <algorithm>
#include <limits>

#include "kernels/panels.h"
#include "lanes/host/attention/attention.h"
#include "lanes/host/scratch.h"

namespace troika::lanes {
namespace {

// Returns how many threads of a lane compute attention in the way of host lanes.
int n_attention_threads(const plan::PlannedLane& lane) {
  if (!lane.is_device()) return lane.n_threads;
  // A lane of OpenCL leaves to its cores what the device does not compute; other devices refuse it.
  return lane.kind == "opencl" ? std::max(1, static_cast<int>(lane.cores.size())) : 0;
}

// Returns the most floats that runs of one op take.
size_t most_floats(const model::Blueprint& blueprint, const plan::Plan& plan, const model::Op& op,
                   size_t n_positions, int n_threads) {
  // A part of a cut op may have any of the heads: of single heads most go together.
  const bool is_cut = !plan.cuts.empty() || !plan.lengths.empty();
  const AttentionReach reach = {is_cut ? std::numeric_limits<int>::max() : plan.most_rows(),
                                n_positions};
  BoundAttention attention = {.head_dim = blueprint.head_dim,
                              .n_group = blueprint.n_heads / std::max(blueprint.n_kv_heads, 1),
                              .first_head = 0,
                              .last_head = is_cut ? 1 : blueprint.n_kv_heads,
                              .shares_keys = false};
  const size_t of_steps = most_attention_parts_floats(attention, op.window, reach, n_threads);
  if (!plan.attention.is_sparse() || plan.attention.has_head_lanes()) return of_steps;
  attention.shares_keys = true;
  attention.sparse =
      plan::attention_of_layer(plan.attention, op.layer, blueprint.n_heads, op.window);
  return std::max(of_steps, most_attention_parts_floats(attention, op.window, reach, n_threads));
}

}  // namespace

size_t attention_list_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int lane,
                            size_t n_positions) {
  const int n_threads = n_attention_threads(plan.lanes[static_cast<size_t>(lane)]);
  if (n_threads == 0) return 0;
  size_t bytes = head_list_bytes(blueprint, plan, lane, n_positions);
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kAttention) continue;
    bytes =
        std::max(bytes, sizeof(float) * most_floats(blueprint, plan, op, n_positions, n_threads));
  }
  return bytes > 0 ? bytes + kernels::kLineBytes : 0;
}

}  // namespace troika::lanes
