#include "papers/shadow/shadow_runs.h"

#include <algorithm>
#include <string_view>

#include "base/units.h"
#include "engine/engine.h"
#include "engine/passes.h"
#include "engine/session.h"
#include "machines/phone_setup.h"
#include "papers/given.h"

namespace troika::papers {
namespace {

using lanes::Processor;

constexpr int kShadowSteps = 8;
constexpr int kCoreLane = 0;

bool is_of_attention(const TraceEvent& event) {
  for (const std::string_view name : {"attention", "estimate", "select", "exact"}) {
    if (name == event.name) return true;
  }
  return false;
}

// Adds the time from the first start to the last end of a chunk's attention, and the energy that
// its lanes take meanwhile.
class KernelSum {
 public:
  explicit KernelSum(const lanes::VirtualPhone& phone) : phone_(phone) { clear(); }

  void add(const TraceEvent& event) {
    begin_us_ = is_open_ ? std::min(begin_us_, event.start_us) : event.start_us;
    end_us_ = is_open_ ? std::max(end_us_, event.end_us) : event.end_us;
    is_open_ = true;
    busy_us_[static_cast<size_t>(event.lane)] += event.end_us - event.start_us;
  }
  void end_chunk() {
    if (!is_open_) return;
    const double us = end_us_ - begin_us_;
    lanes::PhoneUse use;
    use.now_us = us;
    use.busy_us = use.powered_us = busy_us_;
    lanes::PhoneUse none;
    none.powered_us.assign(busy_us_.size(), 0.0);
    sum_.seconds += us / kUsPerS;
    sum_.joules += phone_.energy_j(none, use);
    clear();
  }
  const KernelResult& sum() const { return sum_; }

 private:
  void clear() {
    is_open_ = false;
    busy_us_.assign(phone_.lanes().size(), 0.0);
  }

  const lanes::VirtualPhone& phone_;
  KernelResult sum_;
  bool is_open_ = false;
  double begin_us_ = 0.0, end_us_ = 0.0;
  std::vector<double> busy_us_;  // the time that each lane works in this chunk
};

// Keeps only the first block of a model, for a prompt chunk by chunk.
prepare::Options of_first_block(prepare::Options options) {
  options.model.n_blocks = 1;
  options.prompts.order = plan::Order::kInOrder;
  return options;
}

// Returns the tasks of the second of two prompts: the first prompt teaches what tasks take.
std::vector<TraceEvent> tasks_of(engine::Engine& engine, int n_prompt) {
  engine::Session session(engine);
  Trace trace(engine.passes().trace_rows());
  for (Trace* into : {static_cast<Trace*>(nullptr), &trace}) {
    session.truncate(0);
    session.watch({.trace = into});
    session.prefill(std::vector<cache::Token>(static_cast<size_t>(n_prompt), 0));
  }
  std::vector<TraceEvent> tasks = trace.events();
  std::erase_if(tasks, [](const TraceEvent& task) { return !task.is_prompt; });
  return tasks;
}

}  // namespace

const char* system_name(ShadowSystem system) {
  constexpr const char* kNames[] = {"C/G-Full", "C/G-Sparse", "C/G-Block-Sparse",
                                    "NPU-Full", "shadowAttn", "GPU-Full"};
  return kNames[static_cast<size_t>(system)];
}

ShadowRuns::ShadowRuns(std::string phones, std::vector<plan::ConstantChoice> constants)
    : phones_(std::move(phones)), constants_(std::move(constants)) {
  const Given given(phones_, "shadowattn");
  chunk_ = given.count("tokens of a chunk");
  block_ = given.count("tokens of a block");
}

// Sets up the system of llm.npu, into which the paper puts its attention, and whose other parts run
// where they take least time, which is the NPU. Decoding attends on the CPU, or on the GPU (section
// 4).
prepare::Options ShadowRuns::options_of(const ShadowRun& run) const {
  prepare::Options options;
  options.phone.file = phones_ + "/" + run.phone + ".json";
  options.phone.stack = "shadowattn";
  options.phone.has_values = false;
  // Polling on shared flags is another paper's technique (H8).
  options.phone.has_fast_handover = false;
  options.phone.constants = constants_;
  options.phone.cores = lanes::cores_from_text(run.cores);
  options.phone.bus_taken_gb_s = run.bus_taken_gb_s;
  options.phone.processors = {Processor::kCpu, Processor::kNpu};
  options.model.file = run.model;
  options.model.type = "q8_0";
  options.prompts.chunk = chunk_;
  options.prompts.order = plan::Order::kOutOfOrder;
  options.memory.context = run.n_prompt + kShadowSteps + 8;
  switch (run.system) {
    case ShadowSystem::kGpu:
      options.phone.processors = {Processor::kGpu, Processor::kNpu};
      [[fallthrough]];
    case ShadowSystem::kFull:
      options.lanes.placements = {{"attention", 0, kCoreLane}};
      return options;
    case ShadowSystem::kNpu:
      options.lanes.placements = {{"attention", 2, 1}, {"attention", 0, kCoreLane}};
      return options;
    case ShadowSystem::kSparse:
    case ShadowSystem::kBlocks:
      options.phone.heads.lanes = {Processor::kCpu, Processor::kCpu, Processor::kCpu};
      if (run.system == ShadowSystem::kBlocks) options.phone.heads.block = block_;
      break;
    case ShadowSystem::kShadow:
      break;
  }
  options.prompts.attention = plan::AttentionForm::kQuery;
  options.phone.heads.stage = run.stage;
  options.phone.heads.n_buckets = run.n_buckets;
  options.phone.heads.has_equal_shares = run.has_equal_shares;
  return options;
}

const ShadowResult& ShadowRuns::request(const ShadowRun& run) {
  const auto at = requests_.find(run);
  if (at != requests_.end()) return at->second;
  return requests_.emplace(run, simulate(run)).first->second;
}

ShadowResult ShadowRuns::simulate(const ShadowRun& run) const {
  engine::Engine engine(options_of(run));
  engine::Session session(engine);
  const measure::Simulation simulation =
      measure::simulate_answer(session, run.n_prompt, kShadowSteps);
  ShadowResult result;
  result.prefill = simulation.prefill[0];
  result.step_s = simulation.decode.seconds / kShadowSteps;
  const schedule::PlanningTime* planning = engine.passes().chunk_policy->planning();
  if (planning != nullptr) result.planning = *planning;
  return result;
}

const KernelResult& ShadowRuns::kernel(const ShadowRun& run) {
  const auto at = kernels_.find(run);
  if (at != kernels_.end()) return at->second;
  return kernels_.emplace(run, simulate_kernel(run)).first->second;
}

KernelResult ShadowRuns::simulate_kernel(const ShadowRun& run) const {
  ShadowRun plain = run;
  plain.has_equal_shares = true;
  prepare::Options options = of_first_block(options_of(plain));
  options.phone.constants.push_back({"attention.scale_spread", 0.0});
  engine::Engine engine(options);
  KernelSum sum(*engine.phone().machine);
  for (const TraceEvent& event : tasks_of(engine, run.n_prompt)) {
    if (is_of_attention(event)) {
      sum.add(event);
    } else {
      sum.end_chunk();
    }
  }
  sum.end_chunk();
  return sum.sum();
}

std::vector<TraceEvent> ShadowRuns::first_block(const ShadowRun& run) const {
  engine::Engine engine(of_first_block(options_of(run)));
  return tasks_of(engine, run.n_prompt);
}

}  // namespace troika::papers
