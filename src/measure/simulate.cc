#include "measure/simulate.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "machines/phone_neurons.h"
#include "machines/phone_setup.h"

namespace troika::measure {
namespace {

SimulatedRate rate_between(const lanes::VirtualPhone& phone, const lanes::PhoneUse& from,
                           int n_tokens) {
  const lanes::PhoneUse to = phone.use();
  SimulatedRate rate;
  rate.n_tokens = n_tokens;
  rate.seconds = (to.now_us - from.now_us) / kUsPerS;
  rate.joules = phone.energy_j(from, to);
  rate.frames = {to.frames.n_periods - from.frames.n_periods,
                 to.frames.n_drawn - from.frames.n_drawn,
                 to.frames.n_in_time - from.frames.n_in_time};
  rate.frame_period_s = 1.0 / phone.model().phone().rendering.frames_per_s;
  for (size_t lane = 0; lane < to.busy_us.size(); ++lane) {
    rate.busy_share.push_back((to.busy_us[lane] - from.busy_us[lane]) / (to.now_us - from.now_us));
  }
  const double us = to.now_us - from.now_us;
  rate.flash_share = (to.flash_us - from.flash_us) / us;
  rate.flash_alone_share = (to.flash_alone_us - from.flash_alone_us) / us;
  rate.bus_gb_s = (to.bytes - from.bytes) / us / kBytesPerUsOfGbPerS;
  return rate;
}

// Adds the time of making graphs. The CPU makes them, and nothing else happens meanwhile.
void add_graphs(const engine::Engine& engine, SimulatedRate* rate) {
  const lanes::CostModel& model = engine.phone().machine->model();
  const double graphs_s = model.graph_us(rate->n_tokens) / kUsPerS;
  const double all_s = rate->seconds + graphs_s, part = rate->seconds / all_s;
  for (double& share : rate->busy_share) share *= part;
  rate->flash_share *= part;
  rate->flash_alone_share *= part;
  rate->bus_gb_s *= part;
  double power_w = model.power_w(lanes::Processor::kCpu) + model.phone().power.idle_w;
  const std::span<lanes::Lane* const> lanes = engine.phone().machine->lanes();
  for (size_t i = 0; i < lanes.size(); ++i) {
    if ((lanes[i]->info().capabilities & lanes::kRead) != 0) continue;
    const lanes::Processor processor = lanes::processor_from_name(lanes[i]->info().name);
    if (processor == lanes::Processor::kCpu) {
      rate->busy_share[i] += graphs_s / all_s;
    } else {
      power_w += model.wait_w(processor);
    }
  }
  rate->seconds = all_s;
  rate->graphs_s = graphs_s;
  rate->joules += graphs_s * power_w;
}

// Appends the likeliest token. A phone without values holds none likelier than another, and
// choosing takes it no time.
void take_step(engine::Session& session) {
  if (!session.engine().has_values()) {
    session.logits();
    session.append(0);
    return;
  }
  engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  engine::Sampler sampler(greedy);
  session.next(sampler);
}

// Texts that an engine computes together. While they are open, its passes have room for them.
class OpenTexts {
 public:
  // REQUIRES: the mutex of the passes is held for as long as this lives.
  OpenTexts(engine::Passes& passes, int n) : passes_(passes), n_(n) {
    passes_.count_texts(n);
    try {
      sequences_.reserve(static_cast<size_t>(n));
      for (int i = 0; i < n; ++i) sequences_.push_back(passes_.sequences.open());
    } catch (...) {
      close();
      throw;
    }
  }
  ~OpenTexts() { close(); }
  OpenTexts(const OpenTexts&) = delete;
  OpenTexts& operator=(const OpenTexts&) = delete;

  const std::vector<cache::SequenceId>& sequences() const { return sequences_; }
  void close_last() {
    passes_.sequences.forget(sequences_.back());
    sequences_.pop_back();
  }

 private:
  void close() {
    while (!sequences_.empty()) close_last();
    passes_.end_texts(n_);
  }

  engine::Passes& passes_;
  int n_;
  std::vector<cache::SequenceId> sequences_;
};

}  // namespace

Simulation simulate(engine::Session& session, const MeasureOptions& options) {
  engine::Engine& engine = session.engine();
  TROIKA_ASSERT(engine.phone().machine != nullptr);
  check_context(session, options);
  const lanes::VirtualPhone& phone = *engine.phone().machine;
  Simulation simulation;
  const bool makes_graphs_per_prompt = engine.phone().setup->makes_graphs_per_prompt;
  if (!makes_graphs_per_prompt) {
    for (const int n : engine.plan().prompt_shapes) {
      simulation.graphs_s += phone.model().graph_us(n) / kUsPerS;
    }
  }
  // Which tokens these are makes no difference to the time.
  const auto prefill = [&](int n_tokens) {
    session.truncate(0);
    session.prefill(std::vector<cache::Token>(static_cast<size_t>(n_tokens), 0));
  };
  for (const int n : options.prefill_tokens) {
    // A first run teaches the policy, which chooses the order by what tasks took before.
    if (engine.plan().n_buffer_sets() > 1) prefill(n);
    engine.passes().statistics = {};
    const lanes::PhoneUse start = phone.use();
    prefill(n);
    simulation.prefill.push_back(rate_between(phone, start, n));
    SimulatedRate& rate = simulation.prefill.back();
    const schedule::SchedulerStatistics& decisions = engine.passes().statistics;
    rate.n_decisions = decisions.n_decisions;
    rate.longest_decision_us = decisions.longest_decision_us;
    if (rate.n_decisions > 0) {
      rate.decision_us = decisions.decision_us / static_cast<double>(rate.n_decisions);
    }
    if (makes_graphs_per_prompt) add_graphs(engine, &rate);
  }
  if (options.decode_tokens > 0) {
    prefill(std::max(options.decode_context, 1));
    take_step(session);
    machines::PhoneNeurons* const neurons = engine.phone().neurons;
    if (neurons != nullptr) neurons->work().forget_counters();
    const lanes::PhoneUse start = phone.use();
    std::vector<double> step_s;
    for (int i = 0; i < options.decode_tokens; ++i) {
      const double step_start_us = phone.clock().now_us();
      take_step(session);
      step_s.push_back((phone.clock().now_us() - step_start_us) / kUsPerS);
    }
    simulation.decode = rate_between(phone, start, options.decode_tokens);
    simulation.decode.step_s = std::move(step_s);
    simulation.decode_bytes = simulation.decode.bus_gb_s * kBytesPerGb * simulation.decode.seconds /
                              options.decode_tokens;
    if (neurons != nullptr) {
      simulation.neurons = neurons->work().counters();
      simulation.miss_rates = neurons->work().miss_rates();
    }
  }
  simulation.read_gb_s = phone.model().bus({}).total_gb_s;
  return simulation;
}

Simulation simulate_answer(engine::Session& session, int n_prompt, int n_steps) {
  MeasureOptions options;
  options.prefill_tokens = {n_prompt};
  options.decode_tokens = n_steps;
  options.decode_context = n_prompt;
  return simulate(session, options);
}

std::vector<SimulatedRate> simulate_together(engine::Engine& engine, int n_sequences, int n_context,
                                             int n_steps) {
  TROIKA_ASSERT(engine.phone().machine != nullptr && n_sequences > 0 && n_context > 0);
  engine::Passes& passes = engine.passes();
  const std::lock_guard<TurnMutex> lock(passes.mutex);
  OpenTexts texts(passes, n_sequences);
  const std::vector<cache::SequenceId>& sequences = texts.sequences();
  int position = n_context;
  const auto step = [&] {
    cache::Batch batch;
    for (const cache::SequenceId sequence : sequences) {
      batch.rows.push_back({.token = 0,
                            .position = position,
                            .sequence = sequence,
                            .parent = -1,
                            .wants_logits = true,
                            .tag = passes.tag_of(plan::Phase::kStep)});
    }
    passes.batches.run(batch, plan::Phase::kStep, {});
    ++position;
  };
  // The prompt takes time, too, which does not count.
  const std::vector<cache::Token> text(static_cast<size_t>(n_context), 0);
  for (const cache::SequenceId sequence : sequences) {
    for (int first = 0; first < n_context; first += engine.plan().chunk()) {
      const int n = std::min(n_context - first, engine.plan().chunk());
      cache::Batch part;
      part.add_chain(std::span(text).first(static_cast<size_t>(n)), first, sequence, false,
                     passes.tag_of(plan::Phase::kPrompt));
      passes.batches.run_prompt(part, n_context, {});
    }
  }
  step();
  std::vector<SimulatedRate> rates;
  while (!sequences.empty()) {
    const lanes::PhoneUse start = engine.phone().machine->use();
    for (int i = 0; i < n_steps; ++i) step();
    rates.push_back(
        rate_between(*engine.phone().machine, start, n_steps * static_cast<int>(sequences.size())));
    texts.close_last();
  }
  return rates;
}

}  // namespace troika::measure
