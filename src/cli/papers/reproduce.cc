// troika reproduce: the published figures beside what this program simulates.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/trace.h"
#include "cli/common.h"
#include "cli/papers/measured_npu.h"
#include "cli/papers/measured_sd.h"
#include "cli/use/models.h"
#include "papers/baselines.h"
#include "papers/micro/micro.h"
#include "papers/reproduce_npu.h"
#include "papers/reproduce_sd.h"

namespace troika::cli {
namespace {

using papers::MicroReport;
using papers::MicroRow;
using papers::Split;

struct ReproduceFlags {
  std::string what;
  std::string phones = "phones";
  std::string timeline;
  papers::MeasureNpuOptions measure;
  std::string tasks;
  bool write = false;
  bool json = false;
};

const char* split_name(Split split) {
  switch (split) {
    case Split::kFit:
      return "fit";
    case Split::kHeldOut:
      return "held-out";
    case Split::kTaken:
      return "taken";
    case Split::kNone:
      break;
  }
  return "-";
}

std::string published_text(const plan::PublishedValue& value) {
  const char* sign = value.bound == "most" ? "<= " : value.bound == "least" ? ">= " : "";
  if (value.value) return fmt::format("{}{:.6g}", sign, *value.value);
  return fmt::format("{:.6g} to {:.6g}", value.low, value.high);
}

nlohmann::ordered_json to_json(const MicroRow& row) {
  nlohmann::ordered_json json;
  json["id"] = row.row->id;
  json["paper"] = row.row->paper;
  json["where"] = row.row->where;
  json["name"] = row.value->name.empty() ? row.row->what
                                         : fmt::format("{}, {}", row.row->what, row.value->name);
  json["unit"] = row.value->unit;
  json["use"] = row.row->use;
  // A row that is a constant belongs to what was fitted.
  json["split"] = row.split == Split::kTaken  ? nlohmann::ordered_json("fit")
                  : row.split == Split::kNone ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json(split_name(row.split));
  json["published"] =
      row.value->value ? nlohmann::ordered_json(*row.value->value) : nlohmann::ordered_json();
  json["published_range"] = row.value->value
                                ? nlohmann::ordered_json()
                                : nlohmann::ordered_json::array({row.value->low, row.value->high});
  json["simulated"] =
      row.simulated ? nlohmann::ordered_json(*row.simulated) : nlohmann::ordered_json();
  json["measured"] = nullptr;
  json["inputs"] = row.inputs;
  json["error"] = row.error() ? nlohmann::ordered_json(*row.error()) : nlohmann::ordered_json();
  json["is_taken"] = row.split == Split::kTaken;
  json["group"] = row.group;
  return json;
}

void print_table(const MicroReport& report) {
  std::string group;
  for (const MicroRow& row : report.rows) {
    if (row.group != group) print(fmt::format("\n{}\n", group = row.group));
    const std::string name =
        row.value->name.empty() ? row.row->id : fmt::format("{} {}", row.row->id, row.value->name);
    print(fmt::format("  {:<24} {:>14} {:>10} {:<8} {:>7}  {:<8}  {}\n", name,
                      published_text(*row.value),
                      row.simulated ? fmt::format("{:.4g}", *row.simulated) : "-", row.value->unit,
                      row.error() ? fmt::format("{:+.1f} %", 100.0 * *row.error()) : "-",
                      split_name(row.split), row.inputs));
  }
}

std::string worst_text(const MicroReport& report, Split split) {
  const MicroRow* worst = report.worst(split);
  if (worst == nullptr) return "none";
  return fmt::format("{}{}{} {:+.1f} %", worst->row->id, worst->value->name.empty() ? "" : " ",
                     worst->value->name, 100.0 * *worst->error());
}

void print_summary(const MicroReport& report) {
  print(fmt::format(
      "\nfitted: {} constants; median error {:.1f} % of the {} values that tell how well (worst "
      "{})\n"
      "held out: {} values, median error {:.1f} % (worst {})\n"
      "taken: {} values, no more than the constants they set, so their errors tell nothing\n",
      report.n_fitted_constants, 100.0 * report.median_error(Split::kFit),
      report.count(Split::kFit), worst_text(report, Split::kFit), report.count(Split::kHeldOut),
      100.0 * report.median_error(Split::kHeldOut), worst_text(report, Split::kHeldOut),
      report.count(Split::kTaken)));
  const auto n_missing = std::count_if(report.rows.begin(), report.rows.end(),
                                       [](const MicroRow& row) { return !row.simulated; });
  print(fmt::format("not simulated: {} values\n", n_missing));
}

// Prints how far rows are off to which nothing was fitted.
void print_test_summary(const MicroReport& report) {
  print(
      fmt::format("\ntests: {} values, median error {:.1f} % (worst {}); none of them was fitted\n",
                  report.count(Split::kNone), 100.0 * report.median_error(Split::kNone),
                  worst_text(report, Split::kNone)));
}

void reproduce_baselines(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  const MicroReport report = papers::simulate_baselines(folder);
  if (!flags.json) {
    print_table(report);
    print_test_summary(report);
    return;
  }
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const MicroRow& row : report.rows) json["rows"].push_back(to_json(row));
  json["median_error"] = {{"test", report.median_error(Split::kNone)}};
  print_json(json);
}

nlohmann::ordered_json to_json(const papers::TestRow& row) {
  nlohmann::ordered_json json = to_json(row.base);
  constexpr const char* kKinds[] = {"value", "ratio", "range"};
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  json["kind"] = kKinds[static_cast<size_t>(row.kind)];
  json["measured"] = or_null(row.measured);
  json["error"] = or_null(row.error());
  if (row.highest) json["simulated_range"] = {*row.base.simulated, *row.highest};
  json["left_out"] =
      row.left_out.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.left_out);
  return json;
}

void print_test_row(const papers::TestRow& row) {
  const MicroRow& base = row.base;
  const std::string name = base.value->name.empty()
                               ? base.row->id
                               : fmt::format("{} {}", base.row->id, base.value->name);
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const std::string simulated = !base.simulated ? "-"
                                : row.highest
                                    ? number(*base.simulated) + " to " + number(*row.highest)
                                    : number(*base.simulated);
  print(fmt::format("  {:<22} {:>14} {:>16} {:>8} {:<9} {:>8}  {}{}\n", name,
                    published_text(*base.value), simulated,
                    row.measured ? number(*row.measured) : "-", base.value->unit,
                    row.error() ? fmt::format("{:+.1f} %", 100.0 * *row.error()) : "-", base.inputs,
                    row.left_out.empty() ? "" : "; not counted: " + row.left_out));
}

void print_report(const papers::TestReport& report) {
  using papers::TestKind;
  print("  row                         published        simulated measured unit         error\n");
  std::string group;
  for (const papers::TestRow& row : report.rows) {
    if (row.base.group != group) print(fmt::format("\n{}\n", group = row.base.group));
    print_test_row(row);
  }
  const auto n_kept = std::count_if(report.orderings.begin(), report.orderings.end(),
                                    [](const papers::Ordering& o) { return o.is_kept; });
  print(fmt::format("\norderings: {} of {} kept\n", n_kept, report.orderings.size()));
  for (const papers::Ordering& ordering : report.orderings) {
    if (!ordering.is_kept) print(fmt::format("  not kept: {}\n", ordering.text));
  }
  print(fmt::format(
      "tests: {} values with median error {:.1f} %; {} ratios, {:.1f} %; {} ranges, {:.1f} %; all "
      "{}, {:.1f} %; none of them was fitted\n",
      report.count(TestKind::kValue), 100 * report.median_error(TestKind::kValue),
      report.count(TestKind::kRatio), 100 * report.median_error(TestKind::kRatio),
      report.count(TestKind::kRange), 100 * report.median_error(TestKind::kRange), report.count(),
      100 * report.median_error()));
  if (report.n_decisions == 0) return;
  print(fmt::format("this machine: {} decisions of what comes next, {:.2f} us each\n",
                    report.n_decisions,
                    report.decision_us / static_cast<double>(report.n_decisions)));
}

nlohmann::ordered_json report_json(const papers::TestReport& report) {
  using papers::TestKind;
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const papers::TestRow& row : report.rows) json["rows"].push_back(to_json(row));
  json["orderings"] = nlohmann::ordered_json::array();
  for (const papers::Ordering& ordering : report.orderings) {
    json["orderings"].push_back({{"text", ordering.text}, {"is_kept", ordering.is_kept}});
  }
  json["counts"] = {{"values", report.count(TestKind::kValue)},
                    {"ratios", report.count(TestKind::kRatio)},
                    {"ranges", report.count(TestKind::kRange)},
                    {"all", report.count()}};
  json["median_error"] = {{"values", report.median_error(TestKind::kValue)},
                          {"ratios", report.median_error(TestKind::kRatio)},
                          {"ranges", report.median_error(TestKind::kRange)},
                          {"all", report.median_error()}};
  json["decision_us"] =
      report.n_decisions > 0
          ? nlohmann::ordered_json(report.decision_us / static_cast<double>(report.n_decisions))
          : nlohmann::ordered_json();
  json["this_machine"] = nullptr;
  return json;
}

void reproduce_llm_npu(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  // Measured first: what is simulated would still have the cores warm.
  std::optional<papers::NpuMeasurement> measured;
  if (!flags.measure.model.empty()) {
    papers::MeasureNpuOptions options = flags.measure;
    Progress bar("measuring");
    options.progress = bar.function();
    measured = papers::measure_npu(options);
  }
  papers::TestReport report = papers::simulate_llm_npu(folder);
  if (measured) papers::fill_measured(*measured, &report);
  if (flags.json) {
    nlohmann::ordered_json json = report_json(report);
    if (measured) json["this_machine"] = measured_npu_json(*measured);
    print_json(json);
    return;
  }
  print_report(report);
  if (measured) print_measured_npu(*measured);
}

void reproduce_sd_npu(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (!flags.timeline.empty()) {
    Trace trace({"blocks", "flash"});
    const TimelineTitle title = papers::trace_layout_switch(folder, &trace);
    write_file(flags.timeline, timeline_svg(trace, title));
  }
  std::optional<MeasuredSd> measured;
  if (!flags.measure.model.empty()) measured = measure_sd(flags.measure.model, flags.tasks);
  const papers::TestReport report = papers::simulate_sd_npu(folder);
  if (flags.json) {
    nlohmann::ordered_json json = report_json(report);
    if (measured) json["this_machine"] = measured_sd_json(*measured);
    print_json(json);
    return;
  }
  print_report(report);
  if (measured) print_measured_sd(*measured);
}

void reproduce(const ReproduceFlags& flags) {
  const bool has_measured_form = flags.what == "llm.npu" || flags.what == "sd.npu";
  if (!has_measured_form && !flags.measure.model.empty()) {
    throw UsageError("--measure goes with llm.npu and sd.npu.");
  }
  const bool measures_drafts = flags.what == "sd.npu" && !flags.measure.model.empty();
  if (measures_drafts == flags.tasks.empty()) {
    throw UsageError(
        "With sd.npu, --measure MODEL and --tasks FILE go together; scripts/cag_tasks.py writes "
        "such a file.");
  }
  if (flags.what != "sd.npu" && !flags.timeline.empty()) {
    throw UsageError("--timeline goes with sd.npu.");
  }
  if (flags.what != "micro" && flags.write) {
    throw UsageError("--write is for micro: tests fit nothing.");
  }
  if (flags.what == "llm.npu") {
    reproduce_llm_npu(flags);
    return;
  }
  if (flags.what == "sd.npu") {
    reproduce_sd_npu(flags);
    return;
  }
  if (flags.what == "baselines") {
    reproduce_baselines(flags);
    return;
  }
  papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (flags.write) papers::write_fitted(folder);
  const MicroReport report = papers::simulate_micro(folder);
  if (!flags.json) {
    print_table(report);
    print_summary(report);
    return;
  }
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const MicroRow& row : report.rows) json["rows"].push_back(to_json(row));
  json["constants_fitted"] = report.n_fitted_constants;
  json["median_error"] = {{"fit", report.median_error(Split::kFit)},
                          {"held-out", report.median_error(Split::kHeldOut)}};
  json["values"] = {{"fit", report.count(Split::kFit)},
                    {"held-out", report.count(Split::kHeldOut)},
                    {"taken", report.count(Split::kTaken)}};
  print(json.dump(2) + "\n");
}

}  // namespace

void add_reproduce(Command& app) {
  Command* command = app.add_subcommand(
      "reproduce", "Published figures beside what a virtual phone does", kPapersGroup);
  command->footer(
      "micro: the microbenchmarks that the phones are fitted to, and those held back.\n"
      "baselines: one processor and no technique, which nothing is fitted to: llama.cpp on the "
      "CPU,\n"
      "generation on the GPU.\n"
      "llm.npu: the test rows of that paper, in and out of order, step by step.\n"
      "sd.npu: the test rows of that paper; how many drafts are accepted is taken as published.\n"
      "Example: troika reproduce micro --phones phones");
  auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("what", flags->what, "Which figures")
      ->required()
      ->check(one_of({"micro", "baselines", "llm.npu", "sd.npu"}));
  command->add_option("--timeline", flags->timeline,
                      "With sd.npu: draw a prompt during which the layout changes, as SVG");
  add_model(
      *command, "--measure", flags->measure.model,
      "A GGUF file for the column of this machine. With llm.npu the ablation, the orders of chunks "
      "and the cost of outliers really run on two lanes; with sd.npu drafts really verified");
  command->add_option("--tasks", flags->tasks,
                      "With sd.npu and --measure: tasks that come with their context "
                      "(scripts/cag_tasks.py writes them)");
  command->add_option(
      "--plan", flags->measure.plan,
      "With llm.npu and --measure: limits of outliers from this calibrated plan (default: a "
      "guess from seeded tokens)");
  command
      ->add_option("--prompt", flags->measure.n_prompt,
                   "With llm.npu and --measure: tokens of the prompt")
      ->check(at_least(64))
      ->capture_default_str();
  command
      ->add_option("--chunk", flags->measure.chunk, "With llm.npu and --measure: tokens of a chunk")
      ->check(at_least(33))
      ->capture_default_str();
  command
      ->add_option(
          "--rounds", flags->measure.rounds,
          "With llm.npu and --measure: times that every setting runs, in turn; medians count")
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_text(
          "--shadow-rows",
          [options = &flags->measure](const std::string& text) {
            options->shadow_rows = prepare::shadow_rows_from_name(text);
          },
          "With llm.npu and --measure: which outliers' weights stay in memory: hot, all or none")
      ->shows_default("all");
  command->add_flag("!--no-cache", flags->measure.has_cache,
                    "With llm.npu and --measure: neither use nor keep side files");
  command->add_option("--phones", flags->phones, "Folder of phones, stacks and published figures")
      ->capture_default_str();
  command->add_flag("--write", flags->write, "Fit again, and write the constants to the files");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { reproduce(*flags); });
}

}  // namespace troika::cli
