#include "papers/hetero/hetero_runs.h"

#include <algorithm>
#include <string_view>

#include "base/units.h"
#include "machines/phone_setup.h"
#include "papers/given.h"
#include "papers/gpu_alone.h"
#include "schedule/graphs.h"
#include "solve/time_model.h"

namespace troika::papers {
namespace {

constexpr int kSteps = 8;
constexpr int kGpu = 0, kNpu = 1;

// Returns the share that the product behind the activation takes of the time of all products, each
// by itself on the NPU.
double down_share(const engine::Engine& engine, int n_tokens) {
  const machines::PhoneSetup& setup = *engine.phone().setup;
  lanes::VirtualPhone phone(setup.model, setup.options, nullptr);
  const lanes::Buffers buffers(engine.blueprint(), 1, 1, /*has_values=*/false);
  const solve::RunTimes times(phone, engine.weights(), buffers);
  double all_us = 0.0, down_us = 0.0;
  for (const model::Op& op : engine.blueprint().ops) {
    const auto output = static_cast<size_t>(op.output);
    if (!schedule::is_product(op) || engine.blueprint().values[output].per_output) continue;
    const char* name = schedule::op_name(engine.blueprint(), op);
    const double us = times.task_us(kNpu, {&engine.blueprint(), {&op, 1}, name},
                                    plan::Shape{plan::Phase::kPrompt, n_tokens}, n_tokens);
    all_us += us;
    if (std::string_view(name) == "ffn_down") down_us += us;
  }
  return down_us / all_us;
}

bool is_on_gpu_alone(const plan::Plan& plan) {
  const plan::Shape step;
  return std::all_of(plan.placements.begin(), plan.placements.end(),
                     [&](const plan::Placement& rule) {
                       return rule.lane == kGpu || !rule.holds_for(step, 0) ||
                              plan.lane_of(rule.subgraph, step, 0) == kGpu;
                     }) &&
         std::none_of(plan.cuts.begin(), plan.cuts.end(), [&](const plan::TensorCut& cut) {
           return cut.holds_for(cut.subgraph, step) && cut.rows.size() > 1;
         });
}

}  // namespace

std::vector<int> hetero_lengths(const std::string& phones) {
  std::vector<int> lengths = Given(phones, "heterollm").counts("tokens of graphs");
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

plan::LengthCut piped_length(int n, int lane, const std::vector<int>& graphs) {
  plan::LengthCut length;
  for (size_t i = graphs.size(); i > 0 && n > 0;) {
    const int part = graphs[i - 1];
    if (part > n && i > 1) {
      --i;
      continue;
    }
    length.tokens.push_back({lane, part});
    length.n_tokens += part;
    n -= part;
  }
  return length;
}

// Sets up the systems as sections 4 and 5.1 do: norms, activations and attention on the GPU, 4-bit
// weights, graphs of the standard lengths.
prepare::Options HeteroRuns::options_of(const HeteroRun& run) const {
  prepare::Options options;
  options.phone.file = phones_ + "/8gen3.json";
  options.phone.stack = "heterollm";
  options.model.file = run.model;
  options.model.type = "q4_0";
  options.phone.has_values = false;
  options.phone.has_fast_handover = run.has_fast_handover;
  options.phone.has_rendering = run.has_game;
  options.memory.context = graphs_.back() + kSteps + 8;
  if (run.system == HeteroSystem::kCpu || run.system == HeteroSystem::kGpu) {
    options.phone.processors = {run.system == HeteroSystem::kCpu ? lanes::Processor::kCpu
                                                                 : lanes::Processor::kGpu};
    options.phone.prompt_shapes = {run.n_prompt};
    fill_queue_of_gpu_alone(&options);  // section 5.5 says so, too, of what runs beside a game
    return options;
  }
  options.phone.processors = {lanes::Processor::kGpu, lanes::Processor::kNpu};
  options.phone.prompt_shapes = graphs_;
  options.lanes.splits = {.at_norms = true, .at_activations = true};
  for (const char* kind : {"embed", "norm", "attention", "activation"}) {
    options.lanes.placements.push_back({kind, 0, kGpu});
  }
  options.lanes.solves_cuts = run.system == HeteroSystem::kTensor;
  options.lanes.divides_by_margin = run.odd_lengths == OddLengths::kMargin;
  if (run.odd_lengths == OddLengths::kChunked) options.phone.prompt_shapes = {kChunkedTokens};
  if (run.odd_lengths == OddLengths::kPrepare) options.phone.prompt_shapes = {run.n_prompt};
  if (run.odd_lengths == OddLengths::kPipe)
    options.lanes.lengths = {piped_length(run.n_prompt, kNpu, graphs_)};
  return options;
}

const HeteroResult& HeteroRuns::result(const HeteroRun& run) {
  const auto at = known_.find(run);
  if (at != known_.end()) return at->second;
  return known_.emplace(run, simulate(run)).first->second;
}

HeteroRuns::Machine& HeteroRuns::machine(const HeteroRun& run) {
  HeteroRun key = run;
  const bool has_two_lanes =
      run.system == HeteroSystem::kLayer || run.system == HeteroSystem::kTensor;
  const bool is_of_one_length =
      run.odd_lengths == OddLengths::kPipe || run.odd_lengths == OddLengths::kPrepare;
  if (has_two_lanes && !is_of_one_length) key.n_prompt = 0;
  std::unique_ptr<Machine>& known = machines_[key];
  if (known != nullptr) return *known;
  prepare::Options options = options_of(run);
  if (!run.has_fast_handover && has_two_lanes) {
    // Section 5.4 takes the fast handover away and nothing else: the plan stays as it was for that.
    HeteroRun fast = run;
    fast.has_fast_handover = true;
    options.plan.exact = machine(fast).engine.plan();
    options.lanes = {};
  }
  known = std::make_unique<Machine>(options);
  return *known;
}

HeteroResult HeteroRuns::simulate(const HeteroRun& run) {
  Machine& with = machine(run);
  const measure::Simulation simulation =
      measure::simulate_answer(with.session, run.n_prompt, kSteps);
  HeteroResult result;
  result.prefill = simulation.prefill[0];
  result.step_s = simulation.decode.seconds / kSteps;
  result.decodes_on_gpu_alone = is_on_gpu_alone(with.engine.plan());
  if (run.odd_lengths == OddLengths::kPrepare) {
    result.graphs_s = with.engine.phone().machine->model().graph_us(run.n_prompt) / kUsPerS;
  }
  if (with.engine.plan().lanes.size() > kNpu) {
    result.down_share = down_share(with.engine, run.n_prompt);
  }
  return result;
}

}  // namespace troika::papers
