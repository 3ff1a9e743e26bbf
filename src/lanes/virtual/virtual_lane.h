// A processor of a virtual phone as a lane (V1). It takes modelled time. It computes nothing, or,
// with a lane of this machine behind it, what that lane computes (V4).
#pragma once

#include <memory>
#include <vector>

#include "lanes/virtual/cost.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

// Says for which blocks the prompt graphs are not loaded: these blocks compute a chunk in parts,
// one after the other, by the graphs of steps (D1). Results are the same.
struct BlockForms {
  int part_rows = 0;
  std::vector<char> is_in_parts;  // one entry for each block

  bool holds_for(int block) const {
    return block >= 0 && !is_in_parts.empty() && is_in_parts[static_cast<size_t>(block)] != 0;
  }
};

struct VirtualLaneOptions {
  Processor processor = Processor::kCpu;
  Arithmetic arithmetic = Arithmetic::kInt8;  // the arithmetic of products
  // What one weight takes in memory, its scales counted; `build` asks the store instead.
  double weight_bytes = 1.0;
  bool has_group_scales = false;   // products on an NPU have scales for groups (N §2.3)
  bool has_square_shapes = false;  // rows of products on an NPU are laid out as a square (N8)
  // The cost model of other software that runs prompts; null: the same software does. It must
  // outlive the lane.
  const CostModel* prompts = nullptr;
  bool prompts_have_square_shapes = false;
  const BlockForms* forms = nullptr;  // null: every block has its prompt graphs
  // Counts channels of a product's input that its shadow multiplies (N4).
  int n_outlier_channels = 10;
  int queue_depth = 1;     // tasks that may be submitted before the first has ended
  Lane* values = nullptr;  // computes the values of each task; it must outlive the lane
};

class VirtualLane : public Lane {
 public:
  // Registers the lane with the machine, behind the lanes that are there. The machine and the model
  // must outlive the lane.
  VirtualLane(VirtualMachine& machine, const CostModel& model, const VirtualLaneOptions& options);

  const LaneInfo& info() const override { return info_; }
  std::span<const char* const> arrangements(plan::Shape shape) const override;
  // Builds an executable. Where no lane computes values, only the types of the weights matter.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  std::unique_ptr<Executable> make(const Subgraph& subgraph, plan::Shape shape) const {
    return make_timed(subgraph, shape, nullptr);
  }
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

  std::string problem() const override {
    return options_.values != nullptr ? options_.values->problem() : std::string();
  }
  double started_us() const override { return machine_.started_us(index_); }

  // Returns the cost of a run. Attention costs by the positions that the run lets its tokens see.
  TaskCost cost(const Executable& executable, const Run& run) const;

 private:
  // The cost model of one phase's executables.
  struct Law {
    const CostModel* model;
    Arithmetic arithmetic;
    bool has_square_shapes;
    int software;  // indexes the machine's transitions
  };
  const Law& law_of(plan::Shape shape) const {
    return shape.phase == plan::Phase::kPrompt ? prompt_law_ : step_law_;
  }
  std::unique_ptr<Executable> make_timed(const Subgraph& subgraph, plan::Shape shape,
                                         const weights::Store* weights) const;
  // Returns the cost without attention, whose cost depends on the run.
  TaskCost fixed_cost(const Subgraph& subgraph, plan::Shape shape,
                      const weights::Store* weights) const;
  // Returns the cost of a part of sparse attention.
  TaskCost sparse_cost(const Executable& executable, const Run& run) const;
  bool runs_in_parts(const Executable& executable) const;
  const Law& law_of(const Executable& executable) const;
  TaskCost op_cost(const Subgraph& subgraph, size_t index, plan::Shape shape,
                   const weights::Store* weights) const;
  TaskCost shadow_cost(const Subgraph& subgraph, plan::Shape shape) const;
  Product product_of(const Subgraph& subgraph, const model::Op& op, plan::Shape shape, int64_t rows,
                     int64_t outputs) const;
  TaskCost expert_cost(const Subgraph& subgraph, const model::Op& op, plan::Shape shape,
                       int n_tokens, double weight_bytes) const;

  VirtualMachine& machine_;
  Law step_law_, prompt_law_;
  VirtualLaneOptions options_;
  LaneInfo info_;
  int index_;
};

}  // namespace troika::lanes
