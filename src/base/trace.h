// A record of what ran where and when: every task of every lane on one timeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace troika {

struct TraceEvent {
  int lane;          // an index into the trace's lanes
  const char* name;  // lives as long as the trace is used: a literal or a name of a blueprint
  int block;         // the model's block; -1: outside of blocks
  int n_tokens;
  double start_us;
  double end_us;
  bool is_prompt = false;  // belongs to a pass that reads a prompt, not to a step
};

// A trace. Recording takes a lock and a push; nothing is written before the end.
class Trace {
 public:
  // `lanes` are names, in the order of the lanes' indices.
  explicit Trace(std::vector<std::string> lanes);

  void add(const TraceEvent& event);
  const std::vector<std::string>& lanes() const { return lanes_; }
  // Returns the events in the order of their starts. REQUIRES: nothing is being recorded.
  std::vector<TraceEvent> events() const;

  // Returns JSON as Chrome and Perfetto read it: complete events, one row for each lane.
  std::string to_json() const;

 private:
  std::vector<std::string> lanes_;
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

// How a lane spent the time between the first start and the last end of all lanes.
struct LaneUse {
  std::string lane;
  double busy_us = 0.0;
  // The idle time between the lane's own first start and last end: bubbles.
  double bubble_us = 0.0;
  int n_tasks = 0;
};
struct TraceSummary {
  double span_us = 0.0;
  std::vector<LaneUse> lanes;
};
TraceSummary summarise(const Trace& trace);

}  // namespace troika
