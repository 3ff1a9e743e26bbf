#include "papers/sd_runs.h"

#include <algorithm>

#include "machines/phone_setup.h"
#include "plan/phone.h"

namespace troika::papers {
namespace {

constexpr int kMostTokens = 4096;
// Steps of an answer are all taken to be behind so much of it.
constexpr double kMiddle = 0.5;

bool is_on_cpu(SdSystem system) {
  return system == SdSystem::kCpu || system == SdSystem::kCpuSam || system == SdSystem::kCpuEagle;
}
bool has_two_graphs(SdSystem system) {
  return system == SdSystem::kNpuGraph || system == SdSystem::kNpuGraphSam ||
         system == SdSystem::kOurs;
}
bool is_plain(SdSystem system) {
  return system == SdSystem::kNpu || system == SdSystem::kNpuGraph || system == SdSystem::kCpu;
}
bool is_eagle(SdSystem system) {
  return system == SdSystem::kNpuEagle || system == SdSystem::kCpuEagle;
}

}  // namespace

double accepted_tokens(SdSystem system, const SdTask& task) {
  if (is_plain(system)) return 1.0;
  if (is_eagle(system)) return kEagleAccepted;
  return system == SdSystem::kOurs ? task.ours_accepted : task.sam_accepted;
}

struct SdRuns::Machine {
  explicit Machine(const prepare::Options& options) : engine(options), passes(engine) {}
  Machine(const prepare::Options& options, const prepare::Options& prompt_options)
      : engine(options),
        prompts(std::make_unique<engine::Engine>(prompt_options)),
        passes(engine, prompts.get()) {}
  engine::Engine engine;
  std::unique_ptr<engine::Engine> prompts;
  PhonePasses passes;
};

SdRuns::SdRuns(std::string phones) : phones_(std::move(phones)) {}
SdRuns::~SdRuns() = default;

SdRuns::Machine& SdRuns::machine(const std::string& model, const std::string& phone, bool is_cpu) {
  std::unique_ptr<Machine>& known = machines_[{model, phone, is_cpu}];
  if (known != nullptr) return *known;
  prepare::Options options;
  options.phone.file = phones_ + "/" + phone + ".json";
  options.phone.stack = "sd.npu";
  options.model.file = model;
  options.model.type = "q8_0";
  options.phone.has_values = false;
  options.lanes.is_cut_at_norms = true;
  options.prompts.chunk = kSdPromptShape;
  options.memory.context = kMostTokens;
  if (is_cpu) {
    options.phone.processors = {lanes::Processor::kCpu};
    options.phone.small_shapes = {1, kSdRows};
  } else {
    // Floats on the CPU (footnote 2 of the paper). Whole passes were measured for this stack, so
    // what it takes to hand over is in its rates.
    options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
    options.lanes.placements = {{"qkv", 0, 1},  {"out", 0, 1},       {"ffn", 0, 1},  {"head", 0, 1},
                                {"norm", 0, 0}, {"attention", 0, 0}, {"embed", 0, 0}};
    options.phone.has_fast_handover = true;
    options.phone.small_shapes = {1, kSdRows, kSdStepShape, kSdOneShape};
  }
  if (is_cpu) {
    known = std::make_unique<Machine>(options);
    return *known;
  }
  // Prompts run in chunks as [75] does, which is llm.npu (section 3.1), with the kernels of its
  // backend (section 4.1). The stack of this paper was measured on verifying drafts.
  prepare::Options prompt_options = options;
  prompt_options.phone.stack = "sd.npu.prompts";
  prompt_options.phone.has_fast_handover = false;  // as llm.npu is simulated: H8 is another paper's
  prompt_options.phone.small_shapes = {1};
  known = std::make_unique<Machine>(options, prompt_options);
  return *known;
}

const engine::Engine& SdRuns::engine(const std::string& model, const std::string& phone) {
  return machine(model, phone, false).engine;
}

PhoneCost SdRuns::prompt(const std::string& model, const std::string& phone, int n_prompt,
                         int shape) {
  const auto [at, is_new] = prompts_.try_emplace({model, phone, n_prompt, shape});
  if (is_new) at->second = machine(model, phone, false).passes.prompt(n_prompt, shape);
  return at->second;
}

PhoneCost SdRuns::pass(const std::string& model, const std::string& phone, bool is_cpu, int n_rows,
                       int n_past, bool is_draft_model) {
  const auto [at, is_new] =
      passes_.try_emplace({model, phone, is_cpu, n_rows, n_past, is_draft_model});
  if (!is_new) return at->second;
  PhonePasses& passes = machine(model, phone, is_cpu).passes;
  at->second = is_draft_model ? passes.block_and_head(n_rows, n_past) : passes.pass(n_rows, n_past);
  return at->second;
}

PhoneCost SdRuns::cpu_ms(const std::string& model, const std::string& phone, bool is_cpu,
                         double ms) {
  const lanes::CostModel& costs = machine(model, phone, false).engine.phone()->model();
  const double npu_w = is_cpu ? 0.0 : costs.wait_w(lanes::Processor::kNpu);
  return {1e-3 * ms,
          1e-3 * ms * (costs.power_w(lanes::Processor::kCpu) + npu_w + costs.phone().power.idle_w)};
}

PhoneCost SdRuns::calibration(const std::string& model, const std::string& phone,
                              const SwitchedPrompt& prompt, int n_prompt) {
  const lanes::CostModel& costs = machine(model, phone, false).engine.phone()->model();
  const auto& cpu = costs.phone().cpu;
  const double s_per_token =
      1e-3 * costs.stack().draft.calibrate_ms_per_token / (cpu.prime.count + cpu.middle.count);
  double left_s = 0.0;
  for (size_t chunk = 0; chunk < prompt.chunks.size(); ++chunk) {
    const double idle_s = prompt.chunks[chunk].seconds - prompt.chunks[chunk].cpu_busy_s;
    left_s = std::max(0.0, left_s - idle_s);
    const int done = static_cast<int>(chunk) * kSdPromptShape;
    left_s += s_per_token * std::min(kSdPromptShape, n_prompt - done);
  }
  PhoneCost cost = cpu_ms(model, phone, false, 1e3 * left_s);
  // What is hidden works where the CPU would have waited.
  const double busy_w =
      costs.power_w(lanes::Processor::kCpu) - costs.wait_w(lanes::Processor::kCpu);
  cost.joules += busy_w * (s_per_token * n_prompt - left_s);
  return cost;
}

SwitchedPrompt SdRuns::switched_prompt(const std::string& model, const std::string& phone,
                                       int n_prompt, schedule::Layout now, Trace* trace) {
  const auto [at, is_new] = switched_.try_emplace({model, phone, n_prompt, now});
  if (!is_new && trace == nullptr) return at->second;
  PhonePasses& passes = machine(model, phone, false).passes;
  schedule::LayoutSwitch layouts(passes.profile(n_prompt, kSdPromptShape, kSdStepShape), now);
  const int n_chunks = (n_prompt + kSdPromptShape - 1) / kSdPromptShape;
  layouts.follow(schedule::plan_switch(layouts.times(), layouts.layouts(), n_chunks));
  at->second = passes.switched_prompt(n_prompt, kSdPromptShape, kSdStepShape, &layouts, trace);
  return at->second;
}

double SdRuns::whole_load_s(const std::string& model, const std::string& phone) {
  const Machine& built = machine(model, phone, false);
  return 1e-6 * built.passes.block_load_us() * built.engine.blueprint().n_layers;
}

SdRequest SdRuns::request(const std::string& model, const std::string& phone, SdSystem system,
                          const SdTask& task) {
  const bool is_cpu = is_on_cpu(system);
  const lanes::CostModel& costs = machine(model, phone, false).engine.phone()->model();
  SdRequest request;
  if (has_two_graphs(system)) {
    request.prompt = switched_prompt(model, phone, task.n_prompt).cost;
  } else {
    request.prompt = prompt(model, phone, task.n_prompt, is_cpu ? kSdPromptShape : kSdOneShape);
  }
  if (system == SdSystem::kOurs) {
    const PhoneCost added =
        calibration(model, phone, switched_prompt(model, phone, task.n_prompt), task.n_prompt);
    request.prompt += added;
    request.more_if_behind_s =
        1e-3 * costs.stack().draft.calibrate_ms_per_token * task.n_prompt - added.seconds;
  }
  const int n_rows = is_plain(system) ? 1 : kSdRows;
  const int n_past = task.n_prompt + static_cast<int>(kMiddle * task.n_output);
  PhoneCost step = pass(model, phone, is_cpu, n_rows, n_past, false);
  if (is_eagle(system)) {
    step += pass(model, phone, is_cpu, 1, n_past, true) * kEagleDrafts;
  } else if (!is_plain(system)) {
    step += cpu_ms(model, phone, is_cpu, costs.stack().draft.step_ms);
  }
  request.steps = step * (task.n_output / accepted_tokens(system, task));
  return request;
}

}  // namespace troika::papers
