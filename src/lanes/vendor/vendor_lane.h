// A lane that is a runtime of static graphs, as a phone's NPU has one. It runs subgraphs of
// prompts, each product as a graph for one number of tokens with its weights inside. The ops
// between products are computed by the kernels of the host lane, on this lane's cores.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lanes/host/host_lane.h"
#include "lanes/lane.h"
#include "lanes/vendor/vendor_products.h"

namespace troika::lanes {

struct VendorOptions {
  std::string folder;      // the folder of OpenVINO's libraries; empty: the system knows it
  std::string device;      // the device's name in OpenVINO
  std::vector<int> cores;  // cores for the device's threads and the lane's own; empty: any core
  std::string blob_folder = {};  // the folder in which compiled graphs are kept; empty: nowhere
};

// Computes products of prompts in two classes. In int8 those whose activations have one scale for a
// token, or one for all, and that take no outliers out: for these it has the bits of the host lane.
// In bf16 (H13) all, within a bound: the floats are a class of the device.
class VendorLane : public Lane {
 public:
  // `kernels` must outlive the lane, and the rules until its executables are built. Throws Error
  // where there is no such library or device.
  VendorLane(const VendorOptions& options, const kernels::Table& kernels,
             plan::Activations activations, plan::Prefill prefill,
             const Int8Rules* int8_rules = nullptr);
  // Uses a library that is loaded already, and whose device has the threads that it should have.
  VendorLane(std::shared_ptr<openvino::Library> library, const VendorOptions& options,
             const kernels::Table& kernels, plan::Activations activations, plan::Prefill prefill,
             const Int8Rules* int8_rules = nullptr);
  // Returns the identity of such a lane. Throws the Error that the constructor would throw for this
  // device.
  static std::string identity_of(const VendorOptions& options);

  const LaneInfo& info() const override { return info_; }
  std::span<const int> caller_cores() const override { return info_.cores; }
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // Works on the calling thread. The task has ended on return.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;
  // Counts the weights in the form that graphs take, and the device's own copies, one for each
  // number of tokens.
  size_t held_bytes() const override;
  std::string problem() const override;
  std::string note() const override;
  const GraphCosts& costs() const { return costs_; }

 private:
  void check(const Subgraph& subgraph, plan::Shape shape, const weights::Store& weights) const;
  [[noreturn]] void refuse(const Subgraph& subgraph, const std::string& why) const;
  void fail(const std::string& problem, Completion& completion);
  VendorProduct product_of(const Subgraph& subgraph, size_t index,
                           const weights::Store& weights) const;

  std::shared_ptr<openvino::Library> library_;
  std::string device_;
  const kernels::Table& kernels_;
  Precision precision_;
  std::unique_ptr<VendorShelf> shelf_;
  LaneInfo info_;
  HostLane host_;
  VendorPool pool_;
  size_t packed_bytes_ = 0;
  GraphCosts costs_;
  std::optional<KeptFiles> blobs_;
  mutable std::mutex problem_mutex_;  // held while problem_ changes or is read
  std::string problem_;
};

}  // namespace troika::lanes
