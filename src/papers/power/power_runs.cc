#include "papers/power/power_runs.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "machines/phone_setup.h"
#include "papers/gpu_alone.h"

namespace troika::papers {

PowerRuns::PowerRuns(std::string phones)
    : phones_(std::move(phones)),
      given_(phones_, "powerinfer-2"),
      n_before_(given_.count("tokens before generation")) {}

// Returns the share of the FFN's neurons that fire, where the paper has another one for the model.
std::optional<double> PowerRuns::live_share(const std::string& model) const {
  const std::string name = "percent of the FFN that a token uses of " + model;
  if (!given_.has(name)) return std::nullopt;
  return given_.share(name);
}

prepare::Options PowerRuns::options_of(const PowerRun& run) const {
  prepare::Options options;
  options.phone.file = phones_ + "/" + run.phone + ".json";
  options.phone.stack = "powerinfer-2";
  options.model.file = run.model;
  options.model.type = "q4_0";
  options.phone.has_values = false;
  options.phone.small_shapes.clear();
  for (int n = 1; n <= run.n_sequences; ++n) options.phone.small_shapes.push_back(n);
  options.phone.prompt_shapes = {std::max(run.n_prompt, before(run))};
  options.memory.context = std::max(run.n_prompt, before(run) + run.n_sequences * run.n_steps) + 8;
  if (!run.system) {
    options.phone.processors = {run.dense_on};
    fill_queue_of_gpu_alone(&options);
    options.lanes.limits = {{0, plan::PlannedLane::kNoLimit}};
    return options;
  }
  plan::NeuronChoice& neurons = options.phone.neurons;
  neurons.system = run.system;
  neurons.live_share = live_share(run.model);
  neurons.overlap = run.overlap;
  neurons.pipeline = run.pipeline;
  if (run.memory_gb > 0.0) {
    options.memory.limit_bytes = static_cast<size_t>(run.memory_gb * kBytesPerGb);
  } else {
    neurons.ffn_share = run.ffn_share;
  }
  return options;
}

const PowerResult& PowerRuns::result(const PowerRun& run) {
  const auto at = known_.find(run);
  if (at != known_.end()) return at->second;
  return known_.emplace(run, simulate(run)).first->second;
}

PowerResult PowerRuns::simulate(const PowerRun& run) {
  engine::Engine engine(options_of(run));
  PowerResult result;
  result.plan = engine.plan().neurons;
  result.model_bytes = engine.weights().total_bytes();
  result.runtime_gb = engine.phone().machine->model().stack().neurons.runtime_gb;
  if (run.n_sequences > 1) {
    result.together = measure::simulate_together(engine, run.n_sequences, before(run), run.n_steps);
    result.rate = result.together.front();
    return result;
  }
  engine::Session session(engine);
  measure::MeasureOptions measure;
  measure.prefill_tokens.clear();
  if (run.n_prompt > 0) measure.prefill_tokens = {run.n_prompt};
  measure.decode_tokens = run.n_prompt > 0 ? 0 : run.n_steps;
  measure.decode_context = before(run);
  measure::Simulation simulation = measure::simulate(session, measure);
  result.rate = run.n_prompt > 0 ? simulation.prefill[0] : simulation.decode;
  result.neurons = simulation.neurons;
  result.miss_rates = std::move(simulation.miss_rates);
  return result;
}

void PowerRuns::trace(const PowerRun& run, Trace* trace) {
  engine::Engine engine(options_of(run));
  engine::Session session(engine);
  session.prefill(std::vector<cache::Token>(static_cast<size_t>(before(run)), 0));
  engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  engine::Sampler sampler(greedy);
  session.next(sampler);
  session.watch({.trace = trace});
  session.next(sampler);
  session.watch({});
}

}  // namespace troika::papers
