// A lane made of CPU cores: one team of threads that runs the kernels of this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/threads/team.h"
#include "kernels/choose.h"
#include "lanes/host/neurons/neuron_ffn.h"
#include "lanes/host/op_context.h"
#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::lanes {

class HostExecutable;
struct OwnRows;

class HostLane : public Lane {
 public:
  // `kernels` must outlive the lane, and the rules must live until its executables are built.
  HostLane(const kernels::Table& kernels, const plan::PlannedLane& lane,
           plan::Activations activations, plan::Prefill prefill,
           const Int8Rules* int8_rules = nullptr, const plan::PromptAttention& attention = {});
  ~HostLane() override;

  const LaneInfo& info() const override { return info_; }
  std::span<const int> caller_cores() const override { return info_.cores; }
  // Returns the arrangements that prompts in panels may take.
  std::span<const char* const> arrangements(plan::Shape shape) const override;
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // Leaves out the lists of outliers, because little of them is ever touched.
  size_t held_bytes() const override;
  std::string problem() const override { return problem_; }
  // Computes with the calling thread as the team's first worker. The task has ended on return.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

 private:
  std::optional<std::string> run_ops(const HostExecutable& host, const Run& run);
  std::optional<std::string> reserve_parts(const BoundOp& bound, const Run& run, int n_built);
  void take_parts(size_t n_floats);
  void reserve(const BoundOp& bound, int n_tokens);
  void reserve_heads(const BoundAttention& attention);
  void reserve_product(const BoundOp& bound, int n_tokens);
  void reserve_stretch(size_t bytes);
  void reserve_own_rows(const OwnRows& rows);
  void note_shadow_end(const BoundOp& bound, const Run& run);
  OpContext with_own_rows(const OpContext& context, const OwnRows& rows, int worker);

  const kernels::Table& kernels_;
  plan::Activations activations_;
  plan::Prefill prefill_;
  const Int8Rules* int8_rules_;
  plan::PromptAttention attention_;  // says how prompts attend
  LaneInfo info_;
  Team team_;
  // Activations of the product at hand in the form it takes, and weights that each worker has
  // unpacked. All executables share one buffer each, because tasks of a lane never overlap.
  std::vector<std::byte> prepared_;
  std::vector<std::byte> stretches_;
  size_t stretch_bytes_ = 0;  // counts bytes for one worker
  std::vector<std::byte> own_rows_;
  size_t own_row_bytes_ = 0;  // counts bytes for one worker
  // Lists of outliers, which all executables share, too. They have room for every channel of every
  // token, of which little is ever touched.
  std::unique_ptr<kernels::Outlier[]> outliers_;
  size_t n_outliers_ = 0;
  std::vector<uint32_t> outlier_counts_;
  std::vector<float> scratch_;
  size_t scratch_floats_ = 0;
  std::vector<int32_t> expert_scratch_;
  size_t expert_scratch_length_ = 0;
  NeuronScratch neurons_;
  std::string problem_;  // says why the last task that failed did so
  // Has as many counters as the longest executable needs.
  std::vector<ItemCounter> counters_;
  // Holds the results of segments of attention, where workers share segments, and the lists of
  // sparse attention.
  std::unique_ptr<float[]> attention_parts_;
  size_t n_attention_parts_ = 0;
};

}  // namespace troika::lanes
