#include "base/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace troika {
namespace {

// Returns a name as JSON text. Names come from this program and from model files, whose names must
// be escaped.
std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Trace::Trace(std::vector<std::string> lanes) : lanes_(std::move(lanes)) { events_.reserve(4096); }

void Trace::add(const TraceEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(event);
}

std::vector<TraceEvent> Trace::events() const {
  std::vector<TraceEvent> sorted;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sorted = events_;
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_us < b.start_us;
  });
  return sorted;
}

std::string Trace::to_json() const {
  const std::vector<TraceEvent> sorted = events();
  const double origin = sorted.empty() ? 0.0 : sorted.front().start_us;
  std::string json = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (size_t i = 0; i < lanes_.size(); ++i) {
    json += fmt::format(
        "{{\"ph\": \"M\", \"pid\": 1, \"tid\": {}, \"name\": \"thread_name\", \"args\": "
        "{{\"name\": {}}}}}{}\n",
        i, json_text(lanes_[i]), i + 1 < lanes_.size() || !sorted.empty() ? "," : "");
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    const TraceEvent& e = sorted[i];
    json += fmt::format(
        "{{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"name\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
        "\"args\": {{\"block\": {}, \"tokens\": {}}}}}{}\n",
        e.lane, json_text(e.name), e.start_us - origin, e.end_us - e.start_us, e.block, e.n_tokens,
        i + 1 < sorted.size() ? "," : "");
  }
  return json + "]}\n";
}

TraceSummary summarise(const Trace& trace) {
  TraceSummary summary;
  for (const std::string& lane : trace.lanes()) summary.lanes.push_back({lane, 0.0, 0.0, 0});
  const std::vector<TraceEvent> events = trace.events();
  if (events.empty()) return summary;
  double last_end = events.front().end_us;
  std::vector<double> lane_end(summary.lanes.size(), -1.0);
  for (const TraceEvent& e : events) {
    const auto lane = static_cast<size_t>(e.lane);
    LaneUse& use = summary.lanes[lane];
    use.busy_us += e.end_us - e.start_us;
    if (use.n_tasks > 0) use.bubble_us += std::max(0.0, e.start_us - lane_end[lane]);
    lane_end[lane] = std::max(lane_end[lane], e.end_us);
    ++use.n_tasks;
    last_end = std::max(last_end, e.end_us);
  }
  summary.span_us = last_end - events.front().start_us;
  return summary;
}

}  // namespace troika
