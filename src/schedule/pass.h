// A graph of tasks that is prepared once and run as often as wanted: which task stands on which
// lane, what it waits for and what waits for it. Nothing here changes while it runs.
#pragma once

#include <span>
#include <vector>

#include "lanes/lane.h"
#include "schedule/task_time.h"

namespace troika::schedule {

// A task and its place in a pass.
struct Node {
  int lane = 0;                                   // index into the machine's lanes
  const lanes::Executable* executable = nullptr;  // built by that lane
  const char* name = "";                          // for the trace
  int block = -1;                                 // the model's block; -1: outside of blocks
  // Says to which of the caller's runs the task belongs: several chunks may go through one pass.
  int run = 0;
  std::vector<int> waits_for;  // earlier nodes
  bool is_dynamic = false;     // the node is attention, whose time depends on positions
  lanes::Role role = lanes::Role::kWhole;
  double operations = 0.0;   // for attention those of each position, else those of the whole task
  TaskTime* time = nullptr;  // says what its kind took before, and learns; null: nobody asks
};

class Pass {
 public:
  Pass() = default;
  // REQUIRES: each node stands behind those it waits for, and names each of them once.
  explicit Pass(std::vector<Node> nodes);

  std::span<const Node> nodes() const { return nodes_; }
  size_t n_nodes() const { return nodes_.size(); }
  const Node& node(int index) const { return nodes_[static_cast<size_t>(index)]; }
  // Returns the nodes that wait for this one, ascending.
  std::span<const int> dependents(int node) const {
    return part(dependents_, dependents_begin_, node);
  }
  // Returns for each node how many it waits for.
  std::span<const int> n_waits() const { return n_waits_; }
  // Returns one more than the highest lane that is named.
  int n_lanes() const { return static_cast<int>(order_begin_.size()) - 1; }
  // Returns the nodes of a lane, in order. Nodes are numbered through all lanes: those of this lane
  // begin behind `n_before` others. REQUIRES: lane < n_lanes().
  std::span<const int> order(int lane) const { return part(order_, order_begin_, lane); }
  size_t n_before(int lane) const { return order_begin_[static_cast<size_t>(lane)]; }
  // Returns the lane of all nodes; -1 where they lie on several lanes, or there are none.
  int only_lane() const { return only_lane_; }
  // Returns how many things a run of the pass binds: one more than the highest index.
  size_t n_runs() const { return n_runs_; }

 private:
  static std::span<const int> part(const std::vector<int>& all, const std::vector<size_t>& begin,
                                   int index) {
    const auto i = static_cast<size_t>(index);
    return std::span<const int>(all).subspan(begin[i], begin[i + 1] - begin[i]);
  }

  std::vector<Node> nodes_;
  std::vector<int> n_waits_;
  std::vector<int> dependents_;  // the dependents of all nodes, one node after the other
  std::vector<size_t> dependents_begin_ = {0};
  std::vector<int> order_;  // the nodes of all lanes, one lane after the other
  std::vector<size_t> order_begin_ = {0};
  int only_lane_ = -1;
  size_t n_runs_ = 0;
};

}  // namespace troika::schedule
