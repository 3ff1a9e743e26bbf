// Makes subgraphs of a blueprint, and executables of the subgraphs. They are built once for every
// shape of the plan, and shared by all chunks and by the passes of all sessions.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lanes/machine.h"
#include "plan/plan.h"
#include "schedule/cut/lower.h"
#include "schedule/ffn/ffn_tasks.h"
#include "schedule/pass.h"
#include "schedule/task_time.h"

namespace troika::schedule {

// One task of a pass: an executable and the lane that built it.
struct Task {
  int lane;  // index into the machine's lanes
  std::unique_ptr<lanes::Executable> executable;
  const char* name;
  int block;
  std::vector<int> waits_for;  // earlier tasks of the list
  bool is_dynamic = false;  // the task is attention, which also waits for that of the chunk before
  // Counts multiplications and additions: for attention those of each position that a token sees,
  // else those of the whole task.
  double operations = 0.0;
  TaskTime* time = nullptr;  // the times of its kind; null: nobody asks for them
  lanes::Role role = lanes::Role::kWhole;
};

// Returns the node of the task in a pass. The task must outlive the pass.
Node node_of(const Task& task);

// The tasks of a pass over a number of tokens, each behind those it waits for.
struct TaskList {
  plan::Shape shape;
  std::vector<Task> tasks;
  Pass pass = {};  // has all these tasks, with one run
  // 0: the list is of a usual shape. Else a length of the plan asks for this list, and this counts
  // the rows from which on the list is best.
  int least_of_length = 0;
};
// Makes a pass of some tasks of a list. They wait only for each other, because the n_before tasks
// before them have ended.
Pass pass_of(std::span<const Task> tasks, int n_before = 0);

// Returns how a subgraph is divided between lanes in executables of this shape; no parts: it is not
// divided.
using RangeCutRequest = std::function<RangeCut(const lanes::Subgraph&, plan::Shape)>;

struct GraphOptions {
  bool has_values = true;  // false: lanes compute nothing, so values have no storage
  // How executables for prompts treat outliers on lanes that only take time. Lanes of this machine
  // go by the plan, and by the columns that the weights have.
  ShadowOptions shadow = {};
  // How attention of prompts is divided by heads.
  HeadPipeline heads = {};
  bool is_op_by_op = false;  // every op is a task of its own and has its own name
  // Is asked instead of the plan's cuts; null: the plan's cuts hold. Where parts are given,
  // outliers stay with their product.
  RangeCutRequest range_cut = {};
  const FfnTasks* ffn = nullptr;  // null: a feed-forward part is a subgraph like the others
};

class Graphs {
 public:
  // All arguments must outlive the graphs.
  Graphs(const model::Blueprint& blueprint, const plan::Plan& plan, const lanes::Machine& machine,
         const weights::Store& weights, const GraphOptions& options = {});

  // Returns the list that plan::Plan::body_shape names. REQUIRES: 1 <= n_rows <= the largest shape
  // of the phase.
  const TaskList& body(plan::Phase phase, int n_rows) const;
  // Returns the list of the final norm and the head, for the rows whose logits are wanted.
  // REQUIRES: n_outputs <= the largest shape of outputs.
  const TaskList& head(int n_outputs) const;

  // Returns (n_outputs, n_vocab) logits of a run on a set of buffers, valid after a pass until the
  // next.
  const float* logits(int buffer_set = 0) const {
    return buffers_.view(blueprint_.logits, buffer_set).floats();
  }
  int n_sets() const { return buffers_.n_sets(); }
  // Returns the buffers of outliers that are tasks of their own; null without such tasks.
  lanes::ShadowAreas* shadow() const { return buffers_.shadow(); }
  // Returns the memory in which tasks of heads hand on results; null without such tasks.
  const lanes::HeadAreas* head_areas() const { return buffers_.heads(); }
  size_t buffer_bytes() const { return buffers_.bytes(); }
  const std::vector<TaskList>& bodies() const { return bodies_; }
  const std::vector<TaskList>& heads() const { return heads_; }
  // Returns how many nodes the longest list has.
  size_t most_nodes() const;
  const model::Blueprint& blueprint() const { return blueprint_; }

 private:
  const model::Blueprint& blueprint_;
  bool has_one_class_;
  lanes::Buffers buffers_;
  LearnedTimes times_;
  std::vector<TaskList> bodies_;
  std::vector<TaskList> heads_;
};

// Cuts the ops into runs that a lane takes as one. A dynamic op stands alone. Static ops are joined
// up to the next dynamic op, the selection of outputs, or the start of a block. If asked for, norms
// and activations of the blocks stand alone, too (N2, H2).
std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint,
                                                plan::Splits splits = {});

// Returns what people call an op: "ffn_down", by its weight, or the name of its kind.
const char* op_name(const model::Blueprint& blueprint, const model::Op& op);

}  // namespace troika::schedule
