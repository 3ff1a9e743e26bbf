// A lane that is an OpenCL device: a queue of kernels. Models in float run on the device whole,
// except for attention of heads of odd length, and for experts that are read while they run.
// Prompts in int8 have the bits of the host lane: their products run on the device, and the ops
// between products run on this lane's cores, in the kernels of the host lane.
#pragma once

#include <atomic>
#include <deque>
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

// How a lane computes, and over which cache. The rules must live until its executables are built;
// null: each token's own scale everywhere.
struct OpenclPrecision {
  plan::Activations activations = plan::Activations::kF32;
  plan::Prefill prefill = plan::Prefill::kF32;
  tensor::Type kv_type = tensor::Type::kF16;
  const Int8Rules* int8_rules = nullptr;
  // Holds where prompts are in int8, whose attention cores compute. Prompts in floats attend to
  // everything, as plans are checked for.
  plan::PromptAttention attention = {};
};

class OpenclLane : public Lane {
 public:
  // `kernels` must outlive the lane. Throws Error where there is no such library or device, or
  // where the device does not compute in this precision.
  OpenclLane(const opencl::DeviceOptions& options, const kernels::Table& kernels,
             const OpenclPrecision& precision);
  // Uses a device that is open already, and keeps no compiled programs.
  OpenclLane(std::shared_ptr<const opencl::Device> device, const opencl::DeviceOptions& options,
             const kernels::Table& kernels, const OpenclPrecision& precision);
  ~OpenclLane() override;
  // Returns the identity of such a lane. Throws the Error that the constructor would throw for this
  // device and this precision of prompts.
  static std::string identity_of(const opencl::DeviceOptions& options, plan::Prefill prefill);

  const LaneInfo& info() const override { return info_; }
  // REQUIRES: no task runs.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  void submit(const Executable& executable, const Run& run, Completion& completion) override;
  Memory* memory() override { return &memory_; }
  // Counts the copies of weights that kernels read, too.
  size_t held_bytes() const override;
  std::string problem() const override;
  std::string note() const override;
  const opencl::ProgramCosts& costs() const { return programs_.costs(); }

 private:
  struct Task {
    explicit Task(OpenclLane* lane) : lane(lane), kernels(lane->device_->api()) {}

    OpenclLane* lane;
    opencl::StartedKernels kernels;
    const OpenclExecutable* executable = nullptr;
    const Run* run = nullptr;
    Completion* completion = nullptr;
    // Tells when the task has ended; null: it has ended, or has failed.
    opencl::Event event = nullptr;
    bool has_failed = false;
    bool has_ended = false;  // the task has ended but that was not told yet, where the driver tells
  };
  enum class Place : uint8_t { kHost, kDevice, kExactProduct };

  [[noreturn]] void refuse(const Subgraph& subgraph, const std::string& why) const;
  // Refuses numbers in which the lane does not compute.
  [[noreturn]] void refuse_numbers(const Subgraph& subgraph, plan::Phase phase) const;
  void check(const Subgraph& subgraph, const weights::Store& weights, bool is_float,
             plan::Phase phase) const;
  Place place_of(const Subgraph& subgraph, const BoundOp& bound, bool is_float) const;
  // `makes_table` says that an op of experts must find out where their parts stand.
  std::unique_ptr<opencl::DeviceOp> device_op(const Subgraph& subgraph, const BoundOp& bound,
                                              int n_tokens, bool is_half, bool makes_table);
  bool takes_halves(const BoundOp& bound, bool is_half);
  opencl::DeviceTools tools() {
    return {device_, programs_, variants_, shelf_, group_sums_, halves_, parts_, memory_};
  }

  void reserve_run_data(int n_tokens, int n_pairs);

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
  void end(Task* task, opencl::Int state);
  void note_problem(const std::string& what, opencl::Int status);
  Task& task_at(uint32_t number) { return tasks_[number % tasks_.size()]; }

  std::shared_ptr<const opencl::Device> device_;
  const kernels::Table& kernels_;
  OpenclPrecision precision_;
  LaneInfo info_;
  opencl::SharedMemory memory_;
  opencl::Programs programs_;
  opencl::Variants variants_;
  opencl::WeightShelf shelf_;
  opencl::LevelPool pool_;
  opencl::ScratchMemory group_sums_, halves_, parts_;
  HostLane host_;
  std::set<std::string> host_ops_;  // names the kinds of ops that the lane's cores compute
  opencl::HalvesOfPrompts halves_of_prompts_;
  std::vector<std::unique_ptr<opencl::RunData>> run_data_;

  std::deque<Task> tasks_;  // a ring: task i stands at i modulo its size
  // Held while a task is handed over, because the lane may be destroyed as soon as that task has
  // ended.
  std::mutex handover_;
  std::atomic<uint32_t> n_submitted_{0};
  std::atomic<uint32_t> n_told_{0};
  bool stop_ = false;
  // Where the driver tells of ends, it holds `telling_` meanwhile: when the lane is destroyed, the
  // driver may still be on its way out of that call.
  bool is_fast_;
  std::mutex telling_;
  std::atomic<uint32_t> n_changes_{0};  // counts tasks submitted and tasks told
  mutable std::mutex problem_mutex_;
  std::string problem_;
  std::thread thread_;
};

}  // namespace troika::lanes
