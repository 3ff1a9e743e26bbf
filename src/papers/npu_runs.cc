#include "papers/npu_runs.h"

#include "machines/phone_setup.h"

namespace troika::papers {

prepare::Options npu_options(const std::string& folder, const std::string& model) {
  prepare::Options options;
  options.phone.file = folder + "/8gen3.json";
  options.phone.stack = "llm.npu";
  options.model.file = model;
  options.model.type = "q8_0";
  options.phone.processors = {Processor::kCpu, Processor::kNpu};
  options.phone.npu_step = NpuStep::kOutOfOrder;
  options.phone.has_values = false;
  return options;
}

const NpuResult& NpuRuns::result(const NpuRun& run) {
  const auto [at, is_new] = known_.try_emplace(run);
  if (!is_new) return at->second;
  constexpr int kSteps = 8;
  prepare::Options options = npu_options(folder_, run.model);
  options.phone.file = folder_ + "/" + run.phone + ".json";
  options.phone.processors = run.processors;
  options.phone.npu_step = run.step;
  options.phone.npu_prune = run.prune;
  options.prompts.order = run.order;
  // Polling on shared flags is another paper's technique (H8).
  options.phone.has_fast_handover = false;
  options.phone.has_square_shapes = run.has_square_shapes;
  // Without chunks a prompt has graphs of its own length.
  options.prompts.chunk = run.step == NpuStep::kNaive ? run.n_prompt : kNpuChunk;
  options.memory.context = run.n_prompt + kSteps + 8;
  engine::Engine engine(options);
  engine::Session session(engine);
  measure::MeasureOptions measure;
  measure.prefill_tokens = {run.n_prompt};
  measure.decode_tokens = kSteps;
  measure.decode_context = run.n_prompt;
  const measure::Simulation simulation = measure::simulate(session, measure);
  at->second.prefill = simulation.prefill[0];
  at->second.step_s = simulation.decode.seconds / kSteps;
  for (size_t lane = 0; lane < engine.plan().lanes.size(); ++lane) {
    if (engine.plan().lanes[lane].kind == "npu") {
      at->second.npu_busy = simulation.prefill[0].busy_share[lane];
    }
  }
  return at->second;
}

}  // namespace troika::papers
