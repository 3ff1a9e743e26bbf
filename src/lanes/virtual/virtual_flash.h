// The flash of a virtual phone as a lane. It runs the same kind of task as the disk of this
// machine, and takes time by block size, range, core and depth (P §2.3.2).
#pragma once

#include "lanes/virtual/cost.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

struct FlashOptions {
  double core_ghz = 0.0;  // the clock of the core that asks; 0: the prime core
  int queue_depth = 1;    // tasks that may be submitted before the first has ended
};

class VirtualFlash : public Lane {
 public:
  // Registers the lane with the machine, whose bus gives it what CostModel::flash_gb_s says. Both
  // arguments must outlive the lane.
  VirtualFlash(VirtualMachine& machine, const CostModel& model, const FlashOptions& options);

  const LaneInfo& info() const override { return info_; }
  // Throws Error, because flash computes nothing.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // Builds a task of reads. `more_us` is the time of what the task does before it reads.
  std::unique_ptr<Executable> make_read(double more_us = 0.0) const;
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

  // Returns the time of some reads. A read that begins where the one before ended is sequential.
  double read_us(std::span<const ReadRequest> reads) const;

 private:
  VirtualMachine& machine_;
  const CostModel& model_;
  FlashOptions options_;
  LaneInfo info_;
  int index_;
};

}  // namespace troika::lanes
