// A lane that is an OpenCL device: a queue of kernels. Models in float run on it whole but for
// experts, and prompts in int8 have the bits of the host lane: their products run on the device,
// and what stands between these on the cores of this lane, in the kernels of the host lane.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lanes/host/host_lane.h"
#include "lanes/lane.h"
#include "lanes/next_task.h"
#include "lanes/opencl/products.h"

namespace troika::lanes {

class OpenclExecutable;

// How a lane computes, and over which cache. The rules live until its executables are built; null:
// each token's own scale everywhere.
struct OpenclPrecision {
  plan::Activations activations = plan::Activations::kF32;
  plan::Prefill prefill = plan::Prefill::kF32;
  tensor::Type kv_type = tensor::Type::kF16;
  const Int8Rules* int8_rules = nullptr;
};

class OpenclLane : public Lane {
 public:
  // `kernels` must outlive the lane. Throws Error where there is no such library or device.
  OpenclLane(const opencl::DeviceOptions& options, const kernels::Table& kernels,
             const OpenclPrecision& precision);
  // On a device that is open already; its programs are kept nowhere.
  OpenclLane(std::shared_ptr<const opencl::Device> device, const opencl::DeviceOptions& options,
             const kernels::Table& kernels, const OpenclPrecision& precision);
  ~OpenclLane() override;
  // Throws the Error that the constructor would throw.
  static void check_device(const opencl::DeviceOptions& options);

  const LaneInfo& info() const override { return info_; }
  // Executables are built while no task runs.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  void submit(const Executable& executable, const Run& run, Completion& completion) override;
  Memory* memory() override { return &memory_; }
  // The weights as kernels take them too.
  size_t held_bytes() const override;
  std::string problem() const override;
  std::string note() const override;
  const opencl::ProgramCosts& costs() const { return programs_.costs(); }

 private:
  struct Task {
    const OpenclExecutable* executable = nullptr;
    const Run* run = nullptr;
    Completion* completion = nullptr;
    opencl::Event event = nullptr;  // told when it has ended; none: it has, or has failed
    bool has_failed = false;
    OpenclLane* lane = nullptr;
    bool has_ended = false;  // and is not told yet, where the driver tells
  };
  enum class Place : uint8_t { kHost, kDevice, kExactProduct };

  [[noreturn]] void refuse(const Subgraph& subgraph, const std::string& why) const;
  void check(const Subgraph& subgraph, const weights::Store& weights, bool is_float,
             Precision precision) const;
  Place place_of(const Subgraph& subgraph, const BoundOp& bound, bool is_float) const;
  std::unique_ptr<opencl::DeviceOp> device_op(const Subgraph& subgraph, const BoundOp& bound,
                                              int n_tokens);

  void work();
  void start(Task* task, opencl::RunData* data);
  opencl::Int start_stages(const OpenclExecutable& executable, const Run& run, const Run& own,
                           const opencl::RunData& data);
  opencl::Int wait_for(opencl::Event event, uint32_t n_started);
  void end_oldest(uint32_t n_started);
  void wait_for_work(uint32_t n_started, uint32_t n_changes, const Executable* last,
                     NextTask* next);
  void ask_to_be_told(Task* task);
  static void note_end_of(opencl::Event event, opencl::Int state, void* task);
  void note_end(Task* task, opencl::Int state);
  void note_problem(const char* what, opencl::Int status);
  Task& task_at(uint32_t number) { return tasks_[number % tasks_.size()]; }

  std::shared_ptr<const opencl::Device> device_;
  const kernels::Table& kernels_;
  OpenclPrecision precision_;
  LaneInfo info_;
  opencl::SharedMemory memory_;
  opencl::Programs programs_;
  opencl::WeightShelf shelf_;
  opencl::LevelPool pool_;
  HostLane host_;
  std::set<std::string> host_ops_;  // that its cores compute: names of kinds
  std::vector<std::unique_ptr<opencl::RunData>> run_data_;

  std::vector<Task> tasks_;  // a ring
  // Held while a task is handed over: the lane may be destroyed as soon as it has ended.
  std::mutex handover_;
  std::atomic<uint32_t> n_submitted_{0};
  std::atomic<uint32_t> n_told_{0};
  bool stop_ = false;
  // Where the driver tells: held while it does. It may be on its way out of that when the lane is
  // destroyed.
  bool is_fast_;
  std::mutex telling_;
  std::atomic<uint32_t> n_changes_{0};  // tasks submitted, and tasks told
  mutable std::mutex problem_mutex_;
  std::string problem_;
  std::thread thread_;
};

}  // namespace troika::lanes
