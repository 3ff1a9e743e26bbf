// An op of an executable as kernels in a device's queue, and what it is made with.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lanes/host/bound_ops.h"
#include "lanes/lane.h"
#include "lanes/opencl/panels.h"
#include "lanes/opencl/programs.h"
#include "lanes/opencl/run_data.h"

namespace troika::lanes::opencl {

// What a run is to the ops of a device.
struct DeviceRun {
  const Run& run;
  uint64_t set_offset;  // floats, from the first set of buffers to the run's
  const RunData& data;

  size_t n_rows(const BoundOp& bound) const {
    return static_cast<size_t>(bound.per_output ? run.n_outputs : run.n_tokens);
  }
};

class DeviceOp {
 public:
  virtual ~DeviceOp() = default;
  // Puts its kernels into the queue. Returns what went wrong.
  virtual Int enqueue(const DeviceRun& run) = 0;
};

// A weight in panels, in the memory of the device.
struct DevicePanels {
  PanelForm form;
  size_t k, n_rows;
  std::unique_ptr<DeviceMemory> levels, scales, minima;

  size_t n_panels() const { return (n_rows + kPanelRows - 1) / kPanelRows; }
  size_t n_groups() const { return (k + form.group - 1) / form.group; }
  size_t bytes() const;
};

// Weights on the device, one copy for all executables that use them. They are known by where they
// lie, and live as long as executables do: a model that comes later may lie where one lay before.
class WeightShelf {
 public:
  explicit WeightShelf(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Some rows of a matrix, in floats or as exact levels.
  std::shared_ptr<const DevicePanels> panels_of(const weights::Matrix& matrix, Range rows);
  std::shared_ptr<const DevicePanels> exact_panels_of(const BoundProduct& product, Range rows);
  // Null where there is none.
  std::shared_ptr<const DeviceMemory> vector_of(const float* values, size_t n);
  size_t bytes() const;

 private:
  std::shared_ptr<const DevicePanels> shelve(const std::string& key, const Panels& panels);

  std::shared_ptr<const Device> device_;
  std::map<std::string, std::weak_ptr<const DevicePanels>> panels_;
  std::map<std::string, std::weak_ptr<const DeviceMemory>> vectors_;
};

// What ops are made with; it outlives them.
struct DeviceTools {
  std::shared_ptr<const Device> device;
  Programs& programs;
  WeightShelf& shelf;
  const SharedMemory& memory;

  // Where kernels find a value. Throws Error where it lies in memory that this device cannot map.
  Place place_of(const void* value) const;
};

// Row by row, or element by element: all ops but products and attention, and not those of experts.
// Null for these.
std::unique_ptr<DeviceOp> make_pointwise(const DeviceTools& tools, const BoundOp& bound);
// kEmbed
std::unique_ptr<DeviceOp> make_embedding(const DeviceTools& tools, const BoundOp& bound);
// kLinear in floats; n_tokens: the most that a run has.
std::unique_ptr<DeviceOp> make_product(const DeviceTools& tools, const BoundOp& bound,
                                       int n_tokens);

// kAttention over a cache of this type. REQUIRES: heads of an even length.
std::unique_ptr<DeviceOp> make_attention(const DeviceTools& tools, const BoundOp& bound,
                                         int n_kv_heads, tensor::Type kv_type);

}  // namespace troika::lanes::opencl
