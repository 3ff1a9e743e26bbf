// A processor of a virtual phone as a lane: it takes modelled time and computes nothing (V1).
#pragma once

#include <memory>
#include <vector>

#include "lanes/virtual/cost.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

struct VirtualLaneOptions {
  Processor processor = Processor::kCpu;
  Arithmetic arithmetic = Arithmetic::kInt8;  // of products
  double weight_bytes = 1.0;                  // of one weight in memory, scales counted
};

class VirtualLane : public Lane {
 public:
  // Registers itself with the machine, behind the lanes that are there. The machine and the model
  // must outlive it.
  VirtualLane(VirtualMachine& machine, const CostModel& model, const VirtualLaneOptions& options);

  const LaneInfo& info() const override { return info_; }
  // Neither weights nor buffers are looked at.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, int n_tokens, const weights::Store&,
                                    const Buffers&) override {
    return make(subgraph, n_tokens);
  }
  std::unique_ptr<Executable> make(const Subgraph& subgraph, int n_tokens) const;
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

  // What a run costs. Attention costs by the positions that the run lets its tokens see.
  TaskCost cost(const Executable& executable, const Run& run) const;

 private:
  TaskCost op_cost(const model::Blueprint& blueprint, const model::Op& op, int n_tokens) const;

  VirtualMachine& machine_;
  const CostModel& model_;
  VirtualLaneOptions options_;
  LaneInfo info_;
  int index_;
};

}  // namespace troika::lanes
