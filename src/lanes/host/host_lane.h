// A lane made of CPU cores: one team of threads and the kernels of this machine.
#pragma once

#include <memory>

#include "base/team.h"
#include "kernels/choose.h"
#include "lanes/host/neurons/neuron_ffn.h"
#include "lanes/host/op_context.h"
#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::lanes {

class HostExecutable;

class HostLane : public Lane {
 public:
  // `kernels` must outlive the lane, and the rules until its executables are built.
  HostLane(const kernels::Table& kernels, const plan::HostLane& lane, plan::Activations activations,
           plan::Prefill prefill, const Int8Rules* int8_rules = nullptr,
           const plan::PromptAttention& attention = {});
  ~HostLane() override;

  const LaneInfo& info() const override { return info_; }
  // The arrangements that prompts in panels may take.
  std::span<const char* const> arrangements(plan::Shape shape) const override;
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // The lists of outliers are not counted, because little of them is ever touched.
  size_t held_bytes() const override;
  // The calling thread is the team's first worker; the task has ended on return.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

 private:
  void run_ops(const HostExecutable& host, const Run& run);
  void reserve_parts(size_t n_floats);
  void reserve(const BoundOp& bound, int n_tokens);
  void reserve_product(const BoundOp& bound, int n_tokens);
  void reserve_stretch(size_t bytes);
  void note_shadow_end(const BoundOp& bound, const Run& run);

  const kernels::Table& kernels_;
  plan::Activations activations_;
  plan::Prefill prefill_;
  const Int8Rules* int8_rules_;
  plan::PromptAttention attention_;  // of prompts
  LaneInfo info_;
  Team team_;
  // Activations of the product at hand in the form it takes, and weights unpacked by each worker.
  // One buffer each for all executables: tasks of a lane never overlap.
  std::vector<std::byte> prepared_;
  std::vector<std::byte> stretches_;
  size_t stretch_bytes_ = 0;  // of each worker
  // Lists of outliers, one for all executables too. They have room for every channel of every
  // token, of which little is ever touched.
  std::unique_ptr<kernels::Outlier[]> outliers_;
  size_t n_outliers_ = 0;
  std::vector<uint32_t> outlier_counts_;
  std::vector<float> scratch_;
  size_t scratch_floats_ = 0;
  std::vector<int32_t> expert_scratch_;
  size_t expert_scratch_length_ = 0;
  NeuronScratch neurons_;
  // As many counters as the longest executable needs.
  std::vector<ItemCounter> counters_;
  // What segments of attention come to, where workers share them.
  std::vector<float> attention_parts_;
};

}  // namespace troika::lanes
