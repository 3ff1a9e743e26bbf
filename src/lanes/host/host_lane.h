// A lane made of CPU cores: one team of threads and the kernels of this machine.
#pragma once

#include <memory>

#include "base/team.h"
#include "kernels/choose.h"
#include "lanes/host/steps.h"
#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::lanes {

class HostLane : public Lane {
 public:
  // `kernels` must outlive the lane.
  HostLane(const kernels::Table& kernels, const plan::HostLane& lane, plan::Activations activations,
           plan::Prefill prefill);
  ~HostLane() override;

  const LaneInfo& info() const override { return info_; }
  std::unique_ptr<Executable> build(const Subgraph& subgraph, int n_tokens,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // The calling thread is the team's first worker; the task has ended on return.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

 private:
  void reserve_parts(size_t n_floats);

  const kernels::Table& kernels_;
  plan::Activations activations_;
  plan::Prefill prefill_;
  LaneInfo info_;
  Team team_;
  // Activations of the product at hand in the form it takes, and weights unpacked by each worker.
  // One buffer each for all executables: tasks of a lane never overlap.
  std::vector<std::byte> prepared_;
  std::vector<std::byte> stretches_;
  size_t stretch_bytes_ = 0;  // of each worker
  // Likewise: for the longest executable.
  std::vector<ItemCounter> counters_;
  // What segments of attention come to, where workers share them.
  std::vector<float> attention_parts_;
};

}  // namespace troika::lanes
