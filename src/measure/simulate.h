// Simulates how fast a model would be on a virtual phone, and how much energy it would take (V4,
// V5).
#pragma once

#include <vector>

#include "lanes/virtual/neurons/neuron_work.h"
#include "lanes/virtual/virtual_phone.h"
#include "measure/measure.h"

namespace troika::measure {

struct SimulatedRate {
  int n_tokens = 0;
  double seconds = 0.0;   // the phone's time for all tokens together
  double graphs_s = 0.0;  // the part of it in which graphs were made for this prompt
  double joules = 0.0;
  std::vector<double> busy_share;  // one entry for each lane
  // Frames of a game that runs beside the model, but for those while graphs are made.
  lanes::Frames frames;
  double frame_period_s = 0.0;
  std::vector<double> step_s;  // decoding: the time of each step
  // If the flash is a lane: the share of the time in which it had a task, and the share in which no
  // processor had one meanwhile.
  double flash_share = 0.0, flash_alone_share = 0.0;
  double bus_gb_s = 0.0;  // what processors read and wrote over the bus
  // How many decisions the scheduler made with several chunks on several lanes, and the real time
  // of each.
  uint64_t n_decisions = 0;
  double decision_us = 0.0;
  double longest_decision_us = 0.0;

  double frames_per_s() const { return per_s(frames.n_drawn); }
  double frames_in_time_per_s() const { return per_s(frames.n_in_time); }
  double tokens_per_s() const { return seconds > 0.0 ? n_tokens / seconds : 0.0; }
  double joules_per_token() const { return n_tokens > 0 ? joules / n_tokens : 0.0; }

 private:
  // Divides by the periods that ended meanwhile, as frames are counted at their ends.
  double per_s(int64_t n) const {
    if (frames.n_periods == 0) return 0.0;
    return static_cast<double>(n) / (static_cast<double>(frames.n_periods) * frame_period_s);
  }
};

struct Simulation {
  std::vector<SimulatedRate> prefill;
  SimulatedRate decode;
  // The time of making the graphs of prompts of all shapes, once; 0 where each prompt waits for its
  // own.
  double graphs_s = 0.0;
  double decode_bytes = 0.0;  // the mean bytes that a step moves over the bus
  double read_gb_s = 0.0;     // what others leave of the bus to all lanes of the phone together
  // Counts what happened to neurons in steps whose feed-forward blocks go by neuron.
  lanes::NeuronCounters neurons;
  std::vector<double> miss_rates;  // one entry for each step
};

// Runs each measurement once, because modelled time does not vary. REQUIRES: the engine runs on a
// phone. Throws Error where a wanted length does not fit the context.
Simulation simulate(engine::Session& session, const MeasureOptions& options);
// Simulates a prompt of n_prompt tokens and n_steps steps behind it.
Simulation simulate_answer(engine::Session& session, int n_prompt, int n_steps);

// Simulates candidates of one answer that end one after the other (P9): n_steps steps of
// n_sequences at once, behind n_context positions each, then as many steps without the last
// sequence, and so on. Returns the rates, from all sequences down to one. REQUIRES: the engine runs
// on a phone, whose plan has steps of n_sequences rows.
std::vector<SimulatedRate> simulate_together(engine::Engine& engine, int n_sequences, int n_context,
                                             int n_steps);

}  // namespace troika::measure
