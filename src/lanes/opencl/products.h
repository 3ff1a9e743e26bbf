// Products on a device, and how activations are brought into levels for them by the kernels of the
// host lane.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "lanes/opencl/device_op.h"

namespace troika::lanes::opencl {

// Levels of activations, and their scales, for the product at hand. All products of a lane share
// this pool, because its tasks with such products never overlap. Levels are floats; or quads: bytes
// that fill numbers of four, the last with zeros.
class LevelPool {
 public:
  LevelPool(SharedMemory* memory, bool has_quads) : memory_(memory), has_quads_(has_quads) {}
  ~LevelPool();
  LevelPool(const LevelPool&) = delete;
  LevelPool& operator=(const LevelPool&) = delete;

  // Makes room before the products are made that need it. Throws Error where there is no memory.
  // REQUIRES: no task runs.
  void reserve(size_t n_tokens, size_t k);
  bool has_quads() const { return has_quads_; }
  // Returns the bytes of a token's levels.
  size_t level_bytes(size_t k) const;
  std::byte* levels() const { return levels_; }                        // (n_tokens, level_bytes)
  float* scales() const { return reinterpret_cast<float*>(scales_); }  // (n_tokens)
  float* row() { return row_.data(); }                                 // (k)
  std::byte* token() { return token_.data(); }                         // int8_token_bytes(k) long
  size_t bytes() const;

 private:
  void grow(std::byte** begin, size_t* bytes, size_t wanted);

  SharedMemory* memory_;
  bool has_quads_;
  std::byte* levels_ = nullptr;
  std::byte* scales_ = nullptr;
  size_t level_bytes_ = 0, scale_bytes_ = 0;
  std::vector<float> row_;
  std::vector<std::byte> token_;
};

// Brings the input that some products share into levels. REQUIRES: the device is idle.
class Quantizer {
 public:
  explicit Quantizer(const BoundOp& bound)
      : x_(bound.inputs[0]),
        k_(static_cast<size_t>(bound.input_width)),
        rule_(bound.as<BoundProduct>().int8_rule) {}
  void run(const kernels::Table& kernels, const DeviceRun& run, LevelPool& pool) const;

 private:
  // Writes a token's levels as kernels read them.
  void place_levels(const uint8_t* levels, bool has_quads, std::byte* to) const;

  const float* x_;  // stands in the first set of buffers
  size_t k_;
  Int8Rule rule_;
};

// Brings the activations of a product in floats into what its kernels read: sums of groups where
// weights have minima, and half floats where these are asked for.
class FloatInput {
 public:
  // What a kernel is told of its activations.
  struct Place {
    Buffer x = nullptr;
    uint64_t x_offset = 0;
    Buffer of_groups = nullptr;
  };

  // Makes room for n_rows rows of activations. `options` are those of the product's kernels.
  FloatInput(const DeviceTools& tools, const DevicePanels& weight, const std::string& options,
             size_t n_rows, bool is_half);
  // Puts kernels into the queue for the rows that begin at `place`, and moves it to what they make.
  // Returns the status of the call that failed, or kOk.
  Int enqueue(size_t n_rows, Place* place);

 private:
  ScratchMemory &group_sums_, &halves_;
  size_t k_, n_groups_;
  bool is_half_;
  std::unique_ptr<BoundKernel> kernel_;  // null: floats are read as they stand
};

// Makes an op of kind kLinear in int8, with one scale for each token or one for all. A
// Quantizer must have run before it.
std::unique_ptr<DeviceOp> make_exact_product(const DeviceTools& tools, const BoundOp& bound,
                                             const LevelPool& pool);

}  // namespace troika::lanes::opencl
