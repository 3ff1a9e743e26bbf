#include "cli/flags/trace_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/system.h"
#include "base/timeline/timeline.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "machines/phone_setup.h"

namespace troika::cli {

void TraceFlags::add_to(Command& command) {
  command.begin_group(kTraceGroup);
  command
      .add_option("--trace", trace_path_,
                  "Write every task as JSON for chrome://tracing or ui.perfetto.dev")
      ->names_file();
  command.add_option("--timeline", timeline_path_, "Draw every task of every lane as SVG")
      ->names_file();
  command.end_group();
}

namespace {

// Returns "Qwen2.5 0.5B Instruct, Q8_0", and where and how the model runs.
TimelineTitle timeline_title(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::string name = engine.blueprint().name;
  if (name.empty()) name = std::filesystem::path(engine.file().path()).filename().string();
  std::string how =
      engine.phone().setup != nullptr
          ? fmt::format("virtual phone {}, modelled time", engine.phone().setup->name())
          : fmt::format("{}, {}, prompts in {}", processor_name(), plan.workers_text(),
                        plan::prefill_name(plan.prefill));
  how += fmt::format("; chunks of {} tokens", plan.chunk());
  if (plan.lanes.size() > 1) how += fmt::format(", {}", plan::order_name(plan.order));
  if (engine.loaded().layouts != nullptr) how += "; --layouts switch";
  return {fmt::format("{}, {}", name, tensor::type_name(engine.weights().main_type())), how};
}

}  // namespace

void TraceFlags::check(const std::vector<std::string>& read) const {
  check_output_file(trace_path_, read);
  check_output_file(timeline_path_, read);
  if (trace_path_.empty() || timeline_path_.empty()) return;
  const auto whole = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(written_path(path)),
                                             ignored);
  };
  if (whole(trace_path_) != whole(timeline_path_)) return;
  throw UsageError(fmt::format("--trace and --timeline both name {}. Give each a file of its own.",
                               trace_path_));
}

engine::Watch TraceFlags::watch(const engine::Engine& engine) {
  if (!is_wanted()) return {};
  trace_ = std::make_unique<Trace>(engine.passes().trace_rows());
  return {.trace = trace_.get()};
}

void TraceFlags::count(const engine::Generated& answer) {
  passes_ = passes_text(answer.n_computed, answer.n_steps);
}

void TraceFlags::end(engine::Engine& engine) {
  if (trace_ == nullptr) return;
  if (!trace_path_.empty()) write_file(trace_path_, trace_->to_json());
  if (!timeline_path_.empty()) {
    TimelineTitle title = timeline_title(engine);
    title.about = passes_;
    write_file(timeline_path_, timeline_svg(*trace_, title));
  }
  const TraceSummary summary = summarise(*trace_);
  for (const LaneUse& use : summary.lanes) {
    if (summary.span_us <= 0.0) break;  // no task took time
    note(fmt::format("lane {:<8} {:5.1f}% busy, {:5.1f}% bubbles, {} tasks\n", use.lane,
                     100 * use.busy_us / summary.span_us, 100 * use.bubble_us / summary.span_us,
                     use.n_tasks));
  }
  const schedule::SchedulerStatistics& scheduler = engine.passes().statistics;
  if (scheduler.n_decisions == 0) return;
  note(fmt::format("{} decisions of what comes next ({}), {:.2f} us each\n", scheduler.n_decisions,
                   plan::order_name(engine.plan().order),
                   scheduler.decision_us / static_cast<double>(scheduler.n_decisions)));
}

}  // namespace troika::cli
