// How fast a model would be on a virtual phone, and how much energy it would take (V4, V5).
#pragma once

#include <vector>

#include "lanes/virtual/virtual_phone.h"
#include "measure/measure.h"

namespace troika::measure {

struct SimulatedRate {
  int n_tokens = 0;
  double seconds = 0.0;  // of the phone's time, all tokens together
  double joules = 0.0;
  std::vector<double> busy_share;  // of each lane
  lanes::Frames frames;            // of a game beside it
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
};

// One run of each: modelled time does not vary. REQUIRES: the engine runs on a phone. Throws Error
// where a wanted length does not fit the context.
Simulation simulate(engine::Session& session, const MeasureOptions& options);

}  // namespace troika::measure
