// What a lane of an OpenCL device builds from a subgraph.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lanes/host/slices.h"
#include "lanes/opencl/products.h"

namespace troika::lanes {

// An op in the device's queue, and the input that is shown to those who calibrate.
struct QueuedOp {
  std::unique_ptr<opencl::DeviceOp> op;
  BoundOp bound;
};

// A stage runs these in order and leaves out what is not there. The device is idle while cores
// work.
struct OpenclStage {
  std::unique_ptr<Executable> host;
  std::optional<opencl::Quantizer> quantizer;
  std::vector<QueuedOp> ops;

  bool needs_idle_device() const { return host != nullptr || quantizer.has_value(); }
};

class OpenclExecutable : public Executable {
 public:
  OpenclExecutable(int n_tokens, const TokenSlice& tokens, size_t set_stride, int n_pairs,
                   std::vector<OpenclStage> stages)
      : Executable(n_tokens),
        tokens_(tokens),
        set_stride_(set_stride),
        n_pairs_(n_pairs),
        stages_(std::move(stages)) {
    for (const OpenclStage& stage : stages_) {
      waits_ = waits_ || stage.needs_idle_device();
      for (const QueuedOp& queued : stage.ops) {
        const model::OpKind kind = queued.bound.op.kind;
        const bool reads_values = kind == model::OpKind::kLinear || model::is_of_experts(kind);
        reads_run_ = reads_run_ || !reads_values;
        sees_positions_ = sees_positions_ || kind == model::OpKind::kAttention;
      }
    }
  }
  const TokenSlice& tokens() const { return tokens_; }
  size_t set_stride() const { return set_stride_; }
  int n_pairs() const { return n_pairs_; }
  // Says whether kernels read what a run brings along, beside values; products and ops
  // of experts do not.
  bool reads_run() const { return reads_run_; }
  // Says whether kernels read which positions tokens see.
  bool sees_positions() const { return sees_positions_; }
  const std::vector<OpenclStage>& stages() const { return stages_; }
  // Says whether cores have a part in the executable, so that it cannot be put into a queue whole.
  bool waits() const { return waits_; }

 private:
  TokenSlice tokens_;
  size_t set_stride_;  // counts floats from one set of buffers to the next
  int n_pairs_;        // counts the pairs of all rotations
  std::vector<OpenclStage> stages_;
  bool reads_run_ = false;
  bool sees_positions_ = false;
  bool waits_ = false;
};

}  // namespace troika::lanes
