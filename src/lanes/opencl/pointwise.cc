// Ops that go row by row or element by element, as kernels of kernels/pointwise.cl.
#include <fmt/format.h>

#include <algorithm>

#include "lanes/opencl/device_op.h"

namespace troika::lanes::opencl {
namespace {

using model::OpKind;

// These say how many elements a work item has: an item costs a processor much, and a graphics
// processor little.
constexpr uint32_t kStretchOfCores = 1024, kStretchOfOthers = 16;

struct Tools {
  const DeviceTools& device;
  uint32_t stretch = device.device->entry().is_cpu ? kStretchOfCores : kStretchOfOthers;

  std::unique_ptr<BoundKernel> kernel(const char* name) const {
    return device.programs.kernel("pointwise", fmt::format("-DSTRETCH={}", stretch), name);
  }
};

Buffer handle_of(const std::shared_ptr<const DeviceMemory>& memory) {
  return memory != nullptr ? memory->handle() : nullptr;
}

class Norm : public DeviceOp {
 public:
  Norm(const Tools& tools, const BoundOp& bound)
      : bound_(bound),
        n_heads_(static_cast<size_t>(std::max(1, bound.op.n_heads))),
        n_(static_cast<uint32_t>(bound.output_width) / static_cast<uint32_t>(n_heads_)),
        x_(tools.device.place_of(bound.inputs[0])),
        y_(tools.device.place_of(bound.output)) {
    const bool is_rms = bound.op.kind == OpKind::kRmsNorm;
    const auto& norm = bound.as<BoundNorm>();
    weight_ = tools.device.shelf.vector_of(norm.weight, n_);
    bias_ = tools.device.shelf.vector_of(norm.bias, n_);
    kernel_ = tools.kernel(is_rms ? "rms_norm" : "layer_norm");
    const uint32_t has_weight = weight_ != nullptr ? 1 : 0, has_bias = bias_ != nullptr ? 1 : 0;
    if (is_rms) {
      kernel_->set(0, handle_of(weight_), has_weight, bound.op.eps, n_);
      first_ = 4;
    } else {
      kernel_->set(0, handle_of(weight_), has_weight, handle_of(bias_), has_bias, bound.op.eps, n_);
      first_ = 6;
    }
  }
  Int enqueue(const DeviceRun& run) override {
    kernel_->set(first_, x_.buffer, x_.offset_floats() + run.set_offset, y_.buffer,
                 y_.offset_floats() + run.set_offset);
    return kernel_->run(run.n_rows(bound_) * n_heads_);
  }

 private:
  BoundOp bound_;
  size_t n_heads_;
  uint32_t n_;
  Place x_, y_;
  std::shared_ptr<const DeviceMemory> weight_, bias_;
  std::unique_ptr<BoundKernel> kernel_;
  UInt first_ = 0;  // the number of the first argument that each run sets
};

class Rotation : public DeviceOp {
 public:
  Rotation(const Tools& tools, const BoundOp& bound)
      : bound_(bound),
        y_(tools.device.place_of(bound.output)),
        kernel_(tools.kernel("turn_pairs")) {
    const auto& rope = bound.as<BoundRope>();
    const auto number = [](int n) { return static_cast<uint32_t>(n); };
    kernel_->set(0, number(bound.op.n_heads), number(rope.head_dim), number(rope.n_rotated),
                 number(rope.is_half_split ? 1 : 0), number(rope.first_pair), number(rope.n_pairs));
  }
  Int enqueue(const DeviceRun& run) override {
    kernel_->set(6, run.data.buffer(), run.data.rope_cos(), run.data.rope_sin(), y_.buffer,
                 y_.offset_floats() + run.set_offset);
    return kernel_->run(static_cast<size_t>(bound_.op.n_heads), run.n_rows(bound_));
  }

 private:
  BoundOp bound_;
  Place y_;
  std::unique_ptr<BoundKernel> kernel_;
};

const char* activation_name(const BoundOp& bound) {
  const bool is_gated = bound.inputs[1] != nullptr;
  switch (bound.op.activation) {
    case model::Activation::kSilu:
      return is_gated ? "silu_mul" : "silu";
    case model::Activation::kGelu:
      return is_gated ? "gelu_mul" : "gelu";
    case model::Activation::kRelu:
      return is_gated ? "relu_mul" : "relu";
    case model::Activation::kDoubleRelu:
      return is_gated ? "double_relu_mul" : "relu";
  }
  return "";
}

const char* elements_name(const BoundOp& bound) {
  switch (bound.op.kind) {
    case OpKind::kAdd:
      return "add";
    case OpKind::kSoftCap:
      return "soft_cap";
    default:
      return activation_name(bound);
  }
}

class Elements : public DeviceOp {
 public:
  Elements(const Tools& tools, const BoundOp& bound)
      : bound_(bound),
        stretch_(tools.stretch),
        a_(tools.device.place_of(bound.inputs[0])),
        // Kernels with two inputs get the one input of an op twice, and do not use the second.
        b_(tools.device.place_of(bound.inputs[bound.inputs[1] != nullptr ? 1 : 0])),
        y_(tools.device.place_of(bound.output)),
        kernel_(tools.kernel(elements_name(bound))) {
    kernel_->set(0, static_cast<uint32_t>(bound.output_width),
                 static_cast<uint32_t>(bound.first_column),
                 static_cast<uint32_t>(bound.last_column), bound.op.soft_cap);
  }
  Int enqueue(const DeviceRun& run) override {
    kernel_->set(4, a_.buffer, a_.offset_floats() + run.set_offset, b_.buffer,
                 b_.offset_floats() + run.set_offset, y_.buffer,
                 y_.offset_floats() + run.set_offset);
    const size_t n_items = (static_cast<size_t>(bound_.n_columns()) + stretch_ - 1) / stretch_;
    return n_items == 0 ? kOk : kernel_->run(n_items, run.n_rows(bound_));
  }

 private:
  BoundOp bound_;
  size_t stretch_;
  Place a_, b_, y_;
  std::unique_ptr<BoundKernel> kernel_;
};

// Runs ops of kind kSelect and kSigmoidGate.
class WholeRows : public DeviceOp {
 public:
  WholeRows(const Tools& tools, const BoundOp& bound)
      : bound_(bound),
        selects_(bound.op.kind == OpKind::kSelect),
        n_items_((static_cast<size_t>(bound.output_width) + tools.stretch - 1) / tools.stretch),
        a_(tools.device.place_of(bound.inputs[0])),
        b_(selects_ ? Place() : tools.device.place_of(bound.inputs[1])),
        y_(tools.device.place_of(bound.output)),
        kernel_(tools.kernel(selects_ ? "select_rows" : "gate_by_sigmoid")) {
    kernel_->set(0, static_cast<uint32_t>(bound.output_width));
  }
  Int enqueue(const DeviceRun& run) override {
    const uint64_t a = a_.offset_floats() + run.set_offset, y = y_.offset_floats() + run.set_offset;
    if (selects_) {
      kernel_->set(1, run.data.buffer(), run.data.output_rows(), a_.buffer, a, y_.buffer, y);
    } else {
      kernel_->set(1, a_.buffer, a, b_.buffer, b_.offset_floats() + run.set_offset, y_.buffer, y);
    }
    return kernel_->run(n_items_, run.n_rows(bound_));
  }

 private:
  BoundOp bound_;
  bool selects_;
  size_t n_items_;
  Place a_, b_, y_;
  std::unique_ptr<BoundKernel> kernel_;
};

}  // namespace

std::unique_ptr<DeviceOp> make_pointwise(const DeviceTools& device, const BoundOp& bound) {
  const Tools tools = {device};
  switch (bound.op.kind) {
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
      return std::make_unique<Norm>(tools, bound);
    case OpKind::kRope:
      return std::make_unique<Rotation>(tools, bound);
    case OpKind::kGate:
    case OpKind::kActivate:
    case OpKind::kAdd:
    case OpKind::kSoftCap:
      return std::make_unique<Elements>(tools, bound);
    case OpKind::kSelect:
    case OpKind::kSigmoidGate:
      return std::make_unique<WholeRows>(tools, bound);
    default:
      return nullptr;
  }
}

}  // namespace troika::lanes::opencl
