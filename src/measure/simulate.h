// How fast a model would be on a virtual phone, and how much energy it would take (V4, V5).
#pragma once

#include <vector>

#include "lanes/virtual/neurons/neuron_work.h"
#include "lanes/virtual/virtual_phone.h"
#include "measure/measure.h"

namespace troika::measure {

struct SimulatedRate {
  int n_tokens = 0;
  double seconds = 0.0;  // of the phone's time, all tokens together
  double joules = 0.0;
  std::vector<double> busy_share;  // of each lane
  lanes::Frames frames;            // of a game beside it
  std::vector<double> step_s;      // of decoding, each step by itself
  // Where the flash is a lane: the share of the time in which it had a task, and in which no
  // processor had one meanwhile.
  double flash_share = 0.0, flash_alone_share = 0.0;
  double bus_gb_s = 0.0;  // that processors read and wrote
  // What the scheduler decided with several chunks on several lanes, and the real time of each
  // choice.
  uint64_t n_decisions = 0;
  double decision_us = 0.0;
  double longest_decision_us = 0.0;

  double frames_per_s() const { return seconds > 0.0 ? frames.n_drawn / seconds : 0.0; }
  double frames_in_time_per_s() const { return seconds > 0.0 ? frames.n_in_time / seconds : 0.0; }
  double tokens_per_s() const { return seconds > 0.0 ? n_tokens / seconds : 0.0; }
  double joules_per_token() const { return n_tokens > 0 ? joules / n_tokens : 0.0; }
};

struct Simulation {
  std::vector<SimulatedRate> prefill;
  SimulatedRate decode;
  double graphs_s = 0.0;      // to make the graphs of the prompt's chunks
  double decode_bytes = 0.0;  // of weights and cache that a step reads, on average
  double read_gb_s = 0.0;     // of all lanes of the phone together
  // What decoding with an FFN by neurons came to.
  lanes::NeuronCounters neurons;
  std::vector<double> miss_rates;  // of each step
};

// One run of each: modelled time does not vary. REQUIRES: the engine runs on a phone. Throws Error
// where a wanted length does not fit the context.
Simulation simulate(engine::Session& session, const MeasureOptions& options);
// The same of a prompt and so many steps behind it.
Simulation simulate_answer(engine::Session& session, int n_prompt, int n_steps);

// So many steps of several sequences at once, behind n_context positions each, then as many without
// the last of them, and so on: candidates of one answer that end one after the other (P9). Returns
// the rates from all sequences to one. REQUIRES: the engine runs on a phone, whose plan has steps
// of so many rows.
std::vector<SimulatedRate> simulate_together(engine::Engine& engine, int n_sequences, int n_context,
                                             int n_steps);

}  // namespace troika::measure
