#include "lanes/host/host_lane.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "lanes/host/steps.h"

namespace troika::lanes {
namespace {

class HostExecutable : public Executable {
 public:
  HostExecutable(int n_tokens, std::vector<Step> steps)
      : Executable(n_tokens), steps_(std::move(steps)) {}

  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

constexpr size_t kLine = 64;  // bytes to which both buffers are aligned

std::byte* aligned(std::vector<std::byte>& bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (kLine - address % kLine) % kLine;
}

}  // namespace

HostLane::HostLane(const kernels::Table& kernels, const plan::HostLane& lane,
                   plan::Activations activations, plan::Prefill prefill)
    : kernels_(kernels),
      activations_(activations),
      prefill_(prefill),
      team_(lane.n_threads, lane.cores) {
  info_.name = "host";
  for (size_t i = 0; i < lane.cores.size(); ++i) {
    info_.name += fmt::format("{}{}", i == 0 ? " " : ",", lane.cores[i]);
  }
  info_.cores = lane.cores;
  info_.n_threads = lane.n_threads;
  info_.capabilities = kVector;
}

HostLane::~HostLane() = default;

std::unique_ptr<Executable> HostLane::build(const Subgraph& subgraph, int n_tokens,
                                            const weights::Store& weights, const Buffers& buffers) {
  const bool is_prompt = n_tokens > plan::kMostDecodeTokens;
  const Precision precision = {activations_, is_prompt ? prefill_ : plan::Prefill::kSame};
  std::vector<Step> steps = make_steps(subgraph, weights, buffers, kernels_, precision);
  for (const Step& step : steps) {
    const size_t bytes = static_cast<size_t>(n_tokens) *
                         form_bytes(step.form, static_cast<size_t>(step.input_width));
    prepared_.resize(std::max(prepared_.size(), bytes + kLine));
    stretch_bytes_ = std::max(stretch_bytes_, unpacked_bytes(step));
  }
  if (stretch_bytes_ > 0) {
    stretches_.resize(static_cast<size_t>(info_.n_threads) * stretch_bytes_ + kLine);
  }
  const size_t n_counters = steps.size() * static_cast<size_t>(team_.size());
  if (counters_.size() < n_counters) counters_ = std::vector<ItemCounter>(n_counters);
  return std::make_unique<HostExecutable>(n_tokens, std::move(steps));
}

// In leaps, so that a growing context asks for memory rarely.
void HostLane::reserve_parts(size_t n_floats) {
  if (attention_parts_.size() < n_floats) attention_parts_.resize(2 * n_floats);
}

void HostLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  const auto& host = static_cast<const HostExecutable&>(executable);
  const std::vector<Step>& steps = host.steps();
  const size_t n_counters = steps.size() * static_cast<size_t>(team_.size());
  for (size_t i = 0; i < n_counters; ++i) counters_[i].n_begun.store(0, std::memory_order_relaxed);
  if (steps.front().op.kind == model::OpKind::kAttention) {
    reserve_parts(attention_parts_floats(steps.front(), run, team_.size()));
  }
  const StepContext context = {kernels_,
                               run,
                               team_,
                               aligned(prepared_),
                               aligned(stretches_),
                               stretch_bytes_,
                               counters_.data(),
                               attention_parts_.data()};
  team_.run_where_free([&](int worker) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].meets_before) team_.barrier().wait();
      run_step(steps[i], context, static_cast<int>(i), worker);
    }
  });
  completion.finished(Status::kDone);
}

}  // namespace troika::lanes
