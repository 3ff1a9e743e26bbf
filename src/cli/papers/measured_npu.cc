#include "cli/papers/measured_npu.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

using papers::MeasuredRun;

std::string counters_text(const lanes::ShadowCounters& c) {
  const double share = c.n_outliers > 0 ? static_cast<double>(c.n_cold) / c.n_outliers : 0.0;
  std::string text = fmt::format("{} outliers, {:.1f} % in columns in memory", c.n_outliers,
                                 100.0 * (1.0 - share));
  if (c.n_reads == 0) return text;
  return text + fmt::format(
                    "; {} columns read, {} in {:.1f} ms; they came {:.1f} ms after the "
                    "products beside had ended",
                    c.n_reads, bytes_text(c.read_bytes), 1e-3 * c.read_us, 1e-3 * c.wait_us);
}

nlohmann::ordered_json counters_json(const lanes::ShadowCounters& c) {
  return {{"outliers", c.n_outliers},   {"cold", c.n_cold},     {"columns_read", c.n_reads},
          {"read_bytes", c.read_bytes}, {"read_us", c.read_us}, {"wait_us", c.wait_us}};
}

std::string idle_text(const MeasuredRun& run) {
  return run.matrix_idle_share ? fmt::format("{:.1f} %", 100 * *run.matrix_idle_share) : "-";
}

// Prints a table whose ratios are to the run before, or to the first run.
void print_runs(const std::string& title, const std::vector<MeasuredRun>& runs, bool to_before) {
  print(fmt::format("\n{:<34} {:>10} {:>9} {:>12}\n", title, "ms",
                    to_before ? "faster" : "of first", "matrix idle"));
  for (size_t i = 0; i < runs.size(); ++i) {
    const MeasuredRun& run = runs[i];
    std::string ratio = "-";
    if (i > 0) {
      ratio = to_before ? fmt::format("{:.2f}x", runs[i - 1].ms / run.ms)
                        : fmt::format("{:.3f}", run.ms / runs[0].ms);
    }
    print(fmt::format("  {:<32} {:>10.1f} {:>9} {:>12}{}\n", run.name, run.ms, ratio,
                      idle_text(run),
                      run.build_ms > 0 ? fmt::format("  {:.1f} ms of it building", run.build_ms)
                                       : std::string()));
  }
}

nlohmann::ordered_json runs_json(const std::vector<MeasuredRun>& runs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    const MeasuredRun& run = runs[i];
    nlohmann::ordered_json entry = {{"name", run.name}, {"ms", run.ms}, {"build_ms", run.build_ms}};
    entry["times_faster_than_before"] =
        i > 0 ? nlohmann::ordered_json(runs[i - 1].ms / run.ms) : nlohmann::ordered_json();
    entry["of_first"] = run.ms / runs[0].ms;
    entry["matrix_idle"] = run.matrix_idle_share ? nlohmann::ordered_json(*run.matrix_idle_share)
                                                 : nlohmann::ordered_json();
    if (run.counters.n_outliers > 0) entry["outliers"] = counters_json(run.counters);
    json.push_back(entry);
  }
  return json;
}

}  // namespace

void print_measured_npu(const papers::NpuMeasurement& m) {
  print(fmt::format(
      "\nthis machine: {}, a prompt of {} tokens in chunks of {}, medians of {} rounds\n"
      "lane 0 (core {}) multiplies, lane 1 (core {}) does the rest; limits: {}, {:.1f} outliers a "
      "token\n",
      m.options.model, m.options.n_prompt, m.options.chunk, m.options.rounds, m.cores[0],
      m.cores[1], m.calibration, m.outliers_per_token));
  print_runs("ablation (N12)", m.ablation, true);
  print_runs("orders of chunks (N7)", m.orders, false);
  print(
      fmt::format("  out of order is {:.1f} % shorter than in order; {} decisions of {:.2f} us "
                  "each, the longest {:.1f} us\n",
                  100 * m.latency_gain(), m.n_decisions, m.decision_us, m.longest_decision_us));
  print_runs("outliers ignored (N4, N6)", m.pruned, false);
  for (const MeasuredRun& run : m.pruned) {
    if (run.counters.n_outliers == 0) continue;
    print(fmt::format("  {}: {}\n", run.name, counters_text(run.counters)));
  }
  print_runs("one lane of both cores", m.one_lane, false);
}

nlohmann::ordered_json measured_npu_json(const papers::NpuMeasurement& m) {
  nlohmann::ordered_json json = {{"model", m.options.model},
                                 {"tokens", m.options.n_prompt},
                                 {"chunk", m.options.chunk},
                                 {"rounds", m.options.rounds},
                                 {"cores", m.cores},
                                 {"limits", m.calibration},
                                 {"outliers_per_token", m.outliers_per_token}};
  json["ablation"] = runs_json(m.ablation);
  json["orders"] = runs_json(m.orders);
  json["latency_gain"] = m.latency_gain();
  json["pruned"] = runs_json(m.pruned);
  json["one_lane"] = runs_json(m.one_lane);
  json["decisions"] = m.n_decisions;
  json["decision_us"] = m.decision_us;
  json["longest_decision_us"] = m.longest_decision_us;
  return json;
}

std::string outliers_text(const engine::Engine& engine) {
  const weights::Channels* channels = engine.weights().channels();
  if (channels == nullptr) return {};
  return fmt::format(
      "{}\nweights by channel: {} in memory ({} of pages), {} for all channels; as floats four "
      "times that\n",
      counters_text(engine.graphs().shadow()->counters()), bytes_text(channels->resident_bytes()),
      bytes_text(channels->measured_bytes()), bytes_text(channels->all_bytes()));
}

nlohmann::ordered_json outliers_json(const engine::Engine& engine) {
  const weights::Channels* channels = engine.weights().channels();
  if (channels == nullptr) return nullptr;
  nlohmann::ordered_json json = counters_json(engine.graphs().shadow()->counters());
  json["resident_bytes"] = channels->resident_bytes();
  json["measured_bytes"] = channels->measured_bytes();
  json["all_bytes"] = channels->all_bytes();
  json["side_file"] = engine.loaded().channel_file != nullptr
                          ? nlohmann::ordered_json(engine.loaded().channel_file->path())
                          : nlohmann::ordered_json();
  return json;
}

}  // namespace troika::cli
