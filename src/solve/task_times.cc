#include "solve/task_times.h"

#include <algorithm>

#include "base/error.h"
#include "solve/profile/op_bench.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
RunTimes::RunTimes(lanes::Machine& machine, const weights::Store& weights,
                   const lanes::Buffers& buffers)
    : machine_(machine), weights_(weights), buffers_(buffers) {}

double RunTimes::task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                         int context) const {
  const int n_tokens = shape.n_rows;
  lanes::Lane& worker = *machine_.lanes()[static_cast<size_t>(lane)];
  const auto executable = worker.build(subgraph, shape, weights_, buffers_);
  const auto n = static_cast<size_t>(n_tokens);
  const auto n_seen = static_cast<size_t>(std::max(context, n_tokens));
  // Only the numbers of positions count.
  const std::vector<cache::Slot> slots(subgraph.is_dynamic() ? n_seen : 0);
  std::vector<cache::VisibleSlots> visible;
  for (size_t row = 0; subgraph.is_dynamic() && row < n; ++row) {
    visible.push_back({{slots.data(), n_seen - n + row + 1}, {}});
  }
  lanes::Run run;
  run.phase = shape.phase;
  run.n_tokens = n_tokens;
  run.n_outputs = n_tokens;
  run.visible = visible;
  double us = 0.0;
  // The second time the lane comes from itself: no handover, no restart.
  for (int i = 0; i < 2; ++i) {
    lanes::Ended ended;
    const double start_us = machine_.clock().now_us();
    worker.submit(*executable, run, ended);
    machine_.wait(ended.latch);
    TROIKA_ASSERT(ended.status == lanes::Status::kDone);
    us = machine_.clock().now_us() - start_us;
  }
  return us;
}

double RunTimes::handover_us(int from, int to) const {
  const auto [at, is_new] = handovers_us_.try_emplace({from, to}, 0.0);
  if (is_new && from != to) at->second = measure_handover_us(machine_, from, to);
  return at->second;
}

ProfileTimes::ProfileTimes(const plan::Profile& profile, const weights::Store& weights,
                           tensor::Type kv_type)
    : profile_(profile), predictor_(profile), weights_(weights), kv_type_(kv_type) {}

double ProfileTimes::task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                             int context) const {
  double us = predictor_.start_us(lane);
  for (const model::Op& op : subgraph.ops) {
    us += predictor_.added_us(
        lane, shape_of(*subgraph.blueprint, op, weights_, kv_type_, shape, context));
  }
  return us;
}

double ProfileTimes::handover_us(int from, int to) const {
  if (from == to) return 0.0;
  for (const plan::Handover& handover : profile_.handovers) {
    if (handover.from == from && handover.to == to) return handover.us;
  }
  return 0.0;
}

}  // namespace troika::solve
