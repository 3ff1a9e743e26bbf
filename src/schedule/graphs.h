// Blueprint → subgraphs → executables: built once for every shape of the plan, shared by all chunks
// and all sessions' passes.
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
  bool is_dynamic = false;     // attention: it also waits for that of the chunk before
  // Multiplications and additions: of attention for each position that a token sees, else of the
  // whole task.
  double operations = 0.0;
  TaskTime* time = nullptr;  // of its kind; null: nobody asks
  lanes::Role role = lanes::Role::kWhole;
};

// The task in a pass of such tasks. It must outlive the pass.
Node node_of(const Task& task);

// The tasks of a pass over a number of tokens, in an order that respects what they wait for.
struct TaskList {
  plan::Shape shape;
  std::vector<Task> tasks;
  Pass pass = {};  // of all of them, bound by one run
  // The fewest rows for which it is the best, where a length of the plan asks for it alone. 0: it
  // is of a usual shape.
  int least_of_length = 0;
};
// A part of a list, whose tasks wait for each other alone: what stands before has ended.
Pass pass_of(std::span<const Task> tasks, int n_before = 0);

// How a subgraph is divided between lanes in executables of this shape; no parts: it is not.
using PartsRequest = std::function<Parts(const lanes::Subgraph&, plan::Shape)>;

struct GraphOptions {
  bool has_values = true;  // false: lanes compute nothing, so values have no storage
  // How executables for prompts take outliers where lanes only take time. Lanes of this machine go
  // by the plan, and by the columns that the weights have.
  ShadowOptions shadow = {};
  // How attention of prompts is divided by heads, which lanes on phones take time for.
  HeadPipeline heads = {};
  bool is_op_by_op = false;  // every op is a task of its own, with its own name
  // What takes the place of the plan's cuts; null: nothing does. Where parts are asked for,
  // outliers stay with their product.
  PartsRequest parts = {};
  const FfnTasks* ffn = nullptr;  // null: an FFN is a subgraph like the others
};

class Graphs {
 public:
  // All must outlive the graphs.
  Graphs(const model::Blueprint& blueprint, const plan::Plan& plan, const lanes::Machine& machine,
         const weights::Store& weights, const GraphOptions& options = {});

  // The list that plan::Plan::body_shape names. REQUIRES: 1 <= n_rows <= the largest shape of the
  // phase.
  const TaskList& body(plan::Phase phase, int n_rows) const;
  // Final norm and head, for the rows whose logits are wanted. REQUIRES: n_outputs <= the largest
  // shape of outputs.
  const TaskList& head(int n_outputs) const;

  // (n_outputs, n_vocab) of a run on a set of buffers, valid after a pass until the next.
  const float* logits(int buffer_set = 0) const {
    return buffers_.view(blueprint_.logits, buffer_set).floats();
  }
  int n_sets() const { return buffers_.n_sets(); }
  // The buffers of outliers that are tasks of their own; null without such tasks.
  lanes::ShadowAreas* shadow() const { return buffers_.shadow(); }
  // What heads hand on as tasks of their own; null without such tasks.
  const lanes::HeadAreas* head_areas() const { return buffers_.heads(); }
  size_t buffer_bytes() const { return buffers_.bytes(); }
  const std::vector<TaskList>& bodies() const { return bodies_; }
  const std::vector<TaskList>& heads() const { return heads_; }
  // Nodes of the longest list.
  size_t most_nodes() const;
  const model::Blueprint& blueprint() const { return blueprint_; }

 private:
  const model::Blueprint& blueprint_;
  bool has_one_class_;
  lanes::Buffers buffers_;
  TaskTimes times_;
  std::vector<TaskList> bodies_;
  std::vector<TaskList> heads_;
};

// Cuts the ops into runs that a lane takes as one: a dynamic op stands alone, static ones are
// joined up to the next dynamic one, the selection of outputs, or the start of a block. On demand
// norms and activations of the blocks stand alone too (N2, H2).
std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint,
                                                plan::Splits splits = {});

// What people call an op: "ffn_down" by its weight, or the kind.
const char* op_name(const model::Blueprint& blueprint, const model::Op& op);

}  // namespace troika::schedule
