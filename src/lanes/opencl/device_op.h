// An op of an executable as kernels in a device's queue, and the tools that build it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lanes/host/bound_ops.h"
#include "lanes/lane.h"
#include "lanes/opencl/driver/programs.h"
#include "lanes/opencl/panels.h"
#include "lanes/opencl/run_data.h"
#include "lanes/opencl/variants.h"

namespace troika::lanes::opencl {

// What ops of a device need to know of a run.
struct DeviceRun {
  const Run& run;
  uint64_t set_offset;  // counts floats from the first set of buffers to the run's
  const RunData& data;

  size_t n_rows(const BoundOp& bound) const {
    return static_cast<size_t>(bound.per_output ? run.n_outputs : run.n_tokens);
  }
};

class DeviceOp {
 public:
  virtual ~DeviceOp() = default;
  // Puts the op's kernels into the queue. Returns the status of the call that failed, or kOk.
  virtual Int enqueue(const DeviceRun& run) = 0;
};

// A weight in panels, in the device's memory.
struct DevicePanels {
  PanelForm form;
  size_t k, n_rows;
  std::unique_ptr<DeviceMemory> levels, scales, minima;

  size_t n_strips() const { return (n_rows + kStripRows - 1) / kStripRows; }
  size_t n_groups() const { return (k + form.group - 1) / form.group; }
  size_t n_inputs() const { return form.n_inputs(k); }
  size_t bytes() const;
};

// Weights on the device, one copy for all executables that use them. A weight is known by its
// address and lives as long as executables that use it do: a later model may lie at the same
// address.
class WeightShelf {
 public:
  explicit WeightShelf(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Returns some rows of a matrix, or of each of its experts, in floats or as exact levels.
  std::shared_ptr<const DevicePanels> panels_of(const weights::Matrix& matrix, Range rows,
                                                size_t n_experts = 1);
  std::shared_ptr<const DevicePanels> exact_panels_of(const BoundProduct& product, Range rows,
                                                      bool has_quads);
  // Returns null where `values` is null.
  std::shared_ptr<const DeviceMemory> vector_of(const float* values, size_t n);
  size_t bytes() const;

 private:
  std::shared_ptr<const DevicePanels> shelve(const std::string& key, const Panels& panels);

  std::shared_ptr<const Device> device_;
  std::map<std::string, std::weak_ptr<const DevicePanels>> panels_;
  std::map<std::string, std::weak_ptr<const DeviceMemory>> vectors_;
};

// What kernels make of activations for the product at hand. All products of a lane share this
// memory, because the device's queue runs them one by one.
class ScratchMemory {
 public:
  explicit ScratchMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Makes room before the products are made that need it. Throws Error where there is no memory.
  // REQUIRES: no task runs.
  void reserve(size_t bytes);
  Buffer handle() const { return memory_ != nullptr ? memory_->handle() : nullptr; }
  size_t bytes() const { return memory_ != nullptr ? memory_->bytes() : 0; }

 private:
  std::shared_ptr<const Device> device_;
  std::unique_ptr<DeviceMemory> memory_;
};

// What builds ops. It outlives the ops.
struct DeviceTools {
  std::shared_ptr<const Device> device;
  Programs& programs;
  const Variants& variants;
  WeightShelf& shelf;
  ScratchMemory& group_sums;  // numbers of groups of activations
  ScratchMemory& halves;      // activations as half floats
  ScratchMemory& parts;       // where parts of experts stand (kernels/experts.cl)
  const SharedMemory& memory;

  // Returns where kernels find a value. Throws Error where the value lies in memory that this
  // device cannot map.
  Place place_of(const void* value) const;
};

// Makes an op that goes row by row or element by element: any op but products, attention and those
// of experts, for which it returns null.
std::unique_ptr<DeviceOp> make_pointwise(const DeviceTools& tools, const BoundOp& bound);
// Makes an op of kind kEmbed.
std::unique_ptr<DeviceOp> make_embedding(const DeviceTools& tools, const BoundOp& bound);
// Makes an op of kind kLinear in floats or in half floats. `n_tokens` is the most that a run has.
// REQUIRES: the weight fits half floats where `is_half` asks for them.
std::unique_ptr<DeviceOp> make_product(const DeviceTools& tools, const BoundOp& bound, int n_tokens,
                                       bool is_half);

// Makes an op of a mixture of experts. `n_tokens` is the most that a run has; `makes_table` says
// that no op before it in its executable has told where the parts of these routes stand. REQUIRES:
// all experts are in memory, and the weight fits half floats where `is_half` asks for them.
std::unique_ptr<DeviceOp> make_expert_op(const DeviceTools& tools, const BoundOp& bound,
                                         int n_tokens, bool is_half, bool makes_table);
// Makes an op of kind kAttention over a cache of this type. REQUIRES: heads of an even length.
std::unique_ptr<DeviceOp> make_attention(const DeviceTools& tools, const BoundOp& bound,
                                         int n_kv_heads, tensor::Type kv_type);

}  // namespace troika::lanes::opencl
