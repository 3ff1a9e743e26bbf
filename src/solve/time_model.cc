#include "solve/time_model.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "schedule/cut/lower.h"
#include "schedule/runner.h"
#include "solve/profile/op_bench.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

// Says whether a lane builds such a subgraph, as far as the refusals of a profile do not tell. Ops
// of experts are timed as ops that stand for them, and those may be refused or not (lanes/vendor/).
bool takes(const plan::PlannedLane& lane, const lanes::Subgraph& subgraph) {
  return lane.kind != "openvino" ||
         std::none_of(subgraph.ops.begin(), subgraph.ops.end(),
                      [](const model::Op& op) { return model::is_of_experts(op.kind); });
}

// What a run of one subgraph binds. Of positions only their number counts.
class BoundRun {
 public:
  BoundRun(bool is_dynamic, plan::Shape shape, int context)
      : slots_(is_dynamic ? static_cast<size_t>(std::max(context, shape.n_rows)) : 0) {
    const auto n = static_cast<size_t>(shape.n_rows);
    for (size_t row = 0; is_dynamic && row < n; ++row) {
      visible_.push_back({{slots_.data(), slots_.size() - n + row + 1}, {}});
    }
    run_.phase = shape.phase;
    run_.n_tokens = shape.n_rows;
    run_.n_outputs = shape.n_rows;
    run_.visible = visible_;
  }
  BoundRun(const BoundRun&) = delete;
  BoundRun& operator=(const BoundRun&) = delete;

  const lanes::Run& run() const { return run_; }

 private:
  std::vector<cache::Slot> slots_;
  std::vector<cache::VisibleSlots> visible_;
  lanes::Run run_;
};

// Computes when the pieces end, in the order of their list.
class PieceClock {
 public:
  PieceClock(const TimeModel& times, std::span<const schedule::Piece> pieces, int home)
      : times_(times), pieces_(pieces), home_(home) {}

  double run(TaskShape shape, int context) {
    for (const schedule::Piece& piece : pieces_) {
      double start_us = free_us(piece.lane);
      if (piece.waits_for.empty()) {
        start_us = std::max(start_us, times_.handover_us(home_, piece.lane));
      }
      for (const int other : piece.waits_for) {
        const auto at = static_cast<size_t>(other);
        const double handover_us = times_.handover_us(pieces_[at].lane, piece.lane);
        start_us = std::max(start_us, ends_us_[at] + handover_us);
      }
      const double us = std::max(
          times_.task_us(piece.lane, piece.subgraph, shape, context),
          times_.shared_us(piece.lane, lanes_beside(piece), piece.subgraph, shape, context));
      ends_us_.push_back(start_us + us);
    }
    double end_us = 0.0;
    for (const int last : schedule::last_of(pieces_)) {
      const auto at = static_cast<size_t>(last);
      end_us = std::max(end_us, ends_us_[at] + times_.handover_us(pieces_[at].lane, home_));
    }
    return end_us;
  }

 private:
  double free_us(int lane) const {
    double us = 0.0;
    for (size_t i = 0; i < ends_us_.size(); ++i) {
      if (pieces_[i].lane == lane) us = std::max(us, ends_us_[i]);
    }
    return us;
  }

  // Returns the lanes of all pieces that wait for the same ones, the piece's own lane included.
  std::vector<int> lanes_beside(const schedule::Piece& piece) const {
    std::set<int> lanes;
    for (const schedule::Piece& other : pieces_) {
      if (other.waits_for == piece.waits_for) lanes.insert(other.lane);
    }
    return {lanes.begin(), lanes.end()};
  }

  const TimeModel& times_;
  std::span<const schedule::Piece> pieces_;
  int home_;
  std::vector<double> ends_us_;
};

}  // namespace

double TimeModel::pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                            int context) const {
  return PieceClock(*this, pieces, home).run(shape, context);
}

double CappedTimes::pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                              int context) const {
  const auto is_capped = [](const plan::PlannedLane& lane) { return lane.is_capped(); };
  if (std::none_of(lanes_.begin(), lanes_.end(), is_capped)) {
    return times_.pieces_us(pieces, home, shape, context);
  }
  return TimeModel::pieces_us(pieces, home, shape, context);
}

RunTimes::RunTimes(lanes::Machine& machine, const weights::Store& weights,
                   const lanes::Buffers& buffers)
    : machine_(machine), weights_(weights), buffers_(buffers) {}

double RunTimes::task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                         int context) const {
  lanes::Lane& worker = *machine_.lanes()[static_cast<size_t>(lane)];
  const auto executable = worker.build(subgraph, shape.built, weights_, buffers_);
  const BoundRun bound(subgraph.is_dynamic(), shape.present(), context);
  double us = 0.0;
  // The second task follows one on the same lane, so it has no handover and no restart.
  for (int i = 0; i < 2; ++i) {
    lanes::Ended ended;
    const double start_us = machine_.clock().now_us();
    worker.submit(*executable, bound.run(), ended);
    machine_.wait(ended.latch);
    TROIKA_ASSERT(ended.status == lanes::Status::kDone);
    us = machine_.clock().now_us() - start_us;
  }
  return us;
}

double RunTimes::pieces_us(std::span<const schedule::Piece> pieces, int /*home*/, TaskShape shape,
                           int context) const {
  std::vector<std::unique_ptr<lanes::Executable>> executables;
  std::vector<schedule::Node> nodes;
  for (const schedule::Piece& piece : pieces) {
    lanes::Lane& worker = *machine_.lanes()[static_cast<size_t>(piece.lane)];
    executables.push_back(worker.build(piece.subgraph, shape.built, weights_, buffers_));
    schedule::Node node;
    node.lane = piece.lane;
    node.executable = executables.back().get();
    node.name = piece.subgraph.name;
    node.waits_for = piece.waits_for;
    nodes.push_back(std::move(node));
  }
  const schedule::Pass pass(std::move(nodes));
  const BoundRun bound(pieces.front().subgraph.is_dynamic(), shape.present(), context);
  schedule::Runner runner(machine_);
  runner.reserve(pass.n_nodes());
  runner.run(pass, bound.run());
  const double start_us = machine_.clock().now_us();
  runner.run(pass, bound.run());
  return machine_.clock().now_us() - start_us;
}

double RunTimes::handover_us(int from, int to) const {
  const auto [at, is_new] = handovers_us_.try_emplace({from, to}, 0.0);
  if (is_new && from != to) at->second = measure_handover_us(machine_, from, to);
  return at->second;
}

bool has_fixed_shapes(const plan::PlannedLane& lane) {
  return lane.kind == "npu" || lane.kind == "openvino";
}

ProfileTimes::ProfileTimes(const plan::Profile& profile, std::span<const plan::PlannedLane> lanes,
                           const weights::Store& weights, tensor::Type kv_type)
    : profile_(profile), lanes_(lanes), predictor_(profile), weights_(weights), kv_type_(kv_type) {
  TROIKA_ASSERT(lanes.size() <= profile.lanes.size());
}

// Returns the rows that a lane computes. A slice none of whose rows is present is no work anywhere.
plan::Shape ProfileTimes::computed(int lane, const lanes::Subgraph& subgraph,
                                   TaskShape shape) const {
  const bool is_fixed = has_fixed_shapes(lanes_[static_cast<size_t>(lane)]) &&
                        subgraph.slice.tokens.within(shape.n_present).size() > 0;
  return is_fixed ? shape.built : shape.present();
}

double ProfileTimes::task_us(int lane, const lanes::Subgraph& subgraph, TaskShape task,
                             int context) const {
  constexpr double kForEver = std::numeric_limits<double>::infinity();
  if (!takes(lanes_[static_cast<size_t>(lane)], subgraph)) return kForEver;
  const plan::Shape shape = computed(lane, subgraph, task);
  double us = predictor_.start_us(lane);
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const std::optional<plan::OpShape> op =
        shape_of(subgraph, i, weights_, kv_type_, shape, context);
    if (!op) continue;
    if (profile_.refuses(lane, op->op, shape.phase)) return kForEver;
    us += predictor_.added_us(lane, *op);
  }
  return us;
}

// Returns the rate at which a lane reads while all of these do, or 0 where nothing tells it. Of so
// many lanes that they were not measured together, the slowest few that were say what all of them
// get. Where no two of them were, because a device refuses what reads, they share what any lanes of
// the machine were seen to read together.
double ProfileTimes::shared_gb_s(int lane, std::span<const int> lanes) const {
  const auto is_among = [&](int one) {
    return std::find(lanes.begin(), lanes.end(), one) != lanes.end();
  };
  size_t n_together = 1;
  double least_gb_s = 0.0, seen_gb_s = 0.0;
  for (const plan::ReadRate& rate : profile_.bandwidth) {
    double sum_gb_s = 0.0;
    for (const double gb_s : rate.gb_s) sum_gb_s += gb_s;
    seen_gb_s = std::max(seen_gb_s, sum_gb_s);
    if (!std::all_of(rate.lanes.begin(), rate.lanes.end(), is_among)) continue;
    const auto at = static_cast<size_t>(std::find(rate.lanes.begin(), rate.lanes.end(), lane) -
                                        rate.lanes.begin());
    if (rate.lanes.size() == lanes.size()) return at < rate.gb_s.size() ? rate.gb_s[at] : 0.0;
    if (rate.lanes.size() < std::max<size_t>(2, n_together)) continue;
    if (rate.lanes.size() > n_together || sum_gb_s < least_gb_s) least_gb_s = sum_gb_s;
    n_together = rate.lanes.size();
  }
  return (n_together > 1 ? least_gb_s : seen_gb_s) / static_cast<double>(lanes.size());
}

double ProfileTimes::shared_us(int lane, std::span<const int> lanes,
                               const lanes::Subgraph& subgraph, TaskShape task, int context) const {
  if (lanes.size() < 2) return 0.0;
  const double gb_s = shared_gb_s(lane, lanes);
  if (gb_s <= 0.0) return 0.0;
  const plan::Shape shape = computed(lane, subgraph, task);
  double bytes = 0.0;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const std::optional<plan::OpShape> op =
        shape_of(subgraph, i, weights_, kv_type_, shape, context);
    if (op) bytes += plan::op_bytes(*op);
  }
  return bytes / (gb_s * kBytesPerUsOfGbPerS);
}

double ProfileTimes::handover_us(int from, int to) const {
  if (from == to) return 0.0;
  for (const plan::Handover& handover : profile_.handovers) {
    if (handover.from == from && handover.to == to) return handover.us;
  }
  return 0.0;
}

}  // namespace troika::solve
