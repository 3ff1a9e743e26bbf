// Blueprint → subgraphs → executables: built once for every token count of the shape set, shared
// by all chunks and all sessions' passes.
#pragma once

#include <memory>
#include <vector>

#include "lanes/machine.h"
#include "plan/plan.h"
#include "schedule/shadow.h"

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
};

// The tasks of a pass over a number of tokens, in an order that respects what they wait for.
struct TaskList {
  int n_rows;
  std::vector<Task> tasks;
};

struct GraphOptions {
  bool has_values = true;  // false: lanes compute nothing, so values have no storage
  // Of executables for prompts where lanes only take time. Lanes of this machine go by the plan,
  // and by the columns that the weights have.
  ShadowOptions shadow = {};
  bool is_op_by_op = false;  // every op is a task of its own, with its own name
};

class Graphs {
 public:
  // The machine must outlive the graphs, as must the weights and the blueprint.
  Graphs(const model::Blueprint& blueprint, const plan::Plan& plan, const lanes::Machine& machine,
         const weights::Store& weights, const GraphOptions& options = {});

  // The smallest list that holds so many rows. REQUIRES: n <= the largest shape of the plan.
  const TaskList& body(int n_tokens) const;
  // Final norm and head, for the rows whose logits are wanted.
  const TaskList& head(int n_outputs) const;

  // (n_outputs, n_vocab) of a run on a set of buffers, valid after a pass until the next.
  const float* logits(int buffer_set = 0) const {
    return buffers_.value(blueprint_.logits) +
           buffers_.set_stride() * static_cast<size_t>(buffer_set);
  }
  int n_sets() const { return buffers_.n_sets(); }
  // Of outliers as tasks of their own; null without such tasks.
  lanes::ShadowAreas* shadow() const { return buffers_.shadow(); }
  size_t buffer_bytes() const { return buffers_.bytes(); }
  const std::vector<TaskList>& bodies() const { return bodies_; }
  const std::vector<TaskList>& heads() const { return heads_; }
  const model::Blueprint& blueprint() const { return blueprint_; }

 private:
  const model::Blueprint& blueprint_;
  lanes::Buffers buffers_;
  std::vector<TaskList> bodies_;
  std::vector<TaskList> heads_;
};

// Cuts the ops into runs that a lane takes as one: a dynamic op stands alone, static ones are
// joined up to the next dynamic one, the selection of outputs, or the start of a block. On demand
// the norms of the blocks stand alone too (N2).
std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint,
                                                bool is_cut_at_norms = false);

// What people call an op: "ffn_down" by its weight, or the kind.
const char* op_name(const model::Blueprint& blueprint, const model::Op& op);

}  // namespace troika::schedule
