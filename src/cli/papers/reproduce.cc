// troika reproduce: shows the published figures beside what this program simulates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "cli/installed.h"
#include "cli/output.h"
#include "cli/papers/measured_hetero.h"
#include "cli/papers/measured_npu.h"
#include "cli/papers/measured_sd.h"
#include "cli/papers/reports.h"
#include "cli/use/models.h"
#include "papers/baselines.h"
#include "papers/hetero/hetero_runs.h"
#include "papers/hetero/reproduce_hetero.h"
#include "papers/micro/micro.h"
#include "papers/power/reproduce_power.h"
#include "papers/reproduce_npu.h"
#include "papers/reproduce_sd.h"
#include "papers/shadow/reproduce_shadow.h"

namespace troika::cli {
namespace {

using papers::MicroReport;
using papers::Split;

struct ReproduceFlags {
  std::string what;
  std::string phones = "phones";
  std::string timeline, picture;
  papers::MeasureNpuOptions measure;
  papers::MeasureHeteroOptions hetero;
  std::string tasks, draft_model;
  bool write = false;
  bool json = false;
};

nlohmann::ordered_json micro_json(const MicroReport& report) {
  nlohmann::ordered_json json = report_json(report);
  json["constants_fitted"] = report.n_fitted_constants;
  json["median_error"] = {{"fit", report.median_error(Split::kFit)},
                          {"held-out", report.median_error(Split::kHeldOut)}};
  json["values"] = {{"fit", report.count(Split::kFit)},
                    {"held-out", report.count(Split::kHeldOut)},
                    {"taken", report.count(Split::kTaken)}};
  return json;
}

nlohmann::ordered_json baselines_json(const MicroReport& report) {
  nlohmann::ordered_json json = report_json(report);
  json["median_error"] = {{"test", report.median_error(Split::kNone)}};
  return json;
}

void reproduce_baselines(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  const MicroReport report = papers::simulate_baselines(folder);
  if (!flags.json) {
    print_table(report);
    print_test_summary(report);
    print(papers::record_text(papers::read_record(flags.phones), flags.what));
    return;
  }
  print_json(baselines_json(report));
}

nlohmann::ordered_json npu_json(const papers::PhoneFolder& folder,
                                const papers::TestReport& report) {
  nlohmann::ordered_json json = report_json(report);
  for (const papers::Sensitivity& s : papers::sensitivities_of_llm_npu(folder)) {
    json["sensitivities"].push_back({{"constant", s.text},
                                     {"values", s.median_of_values},
                                     {"prompts", s.median_of_prompts},
                                     {"all", s.median_of_all},
                                     {"kept", s.orderings.n_kept},
                                     {"orderings", s.orderings.n}});
  }
  return json;
}

void reproduce_llm_npu(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  // Measuring comes first, because simulating warms the cores up.
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
    nlohmann::ordered_json json = npu_json(folder, report);
    if (measured) json["this_machine"] = measured_npu_json(*measured);
    print_json(json);
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  print("what constants that no row fixes would change, and an NPU that holds any model:\n");
  for (const papers::Sensitivity& s : papers::sensitivities_of_llm_npu(folder)) {
    print(
        fmt::format("  {:<26} values {:>5.1f} %, prompts {:>5.1f} %, all {:>5.1f} %, {} of {} "
                    "orderings\n",
                    s.text, 100 * s.median_of_values, 100 * s.median_of_prompts,
                    100 * s.median_of_all, s.orderings.n_kept, s.orderings.n));
  }
  if (measured) print_measured_npu(*measured);
}

void reproduce_sd_npu(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (!flags.timeline.empty()) {
    Trace trace(papers::kLayoutSwitchRows);
    const TimelineTitle title = papers::trace_layout_switch(folder, &trace);
    write_file(flags.timeline, timeline_svg(trace, title));
  }
  std::optional<MeasuredSd> measured;
  if (!flags.measure.model.empty()) {
    measured = measure_sd(flags.measure.model, flags.tasks, flags.draft_model);
  }
  const papers::TestReport report = papers::simulate_sd_npu(folder);
  if (flags.json) {
    nlohmann::ordered_json json = report_json(report);
    if (measured) json["this_machine"] = measured_sd_json(*measured);
    print_json(json);
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  if (measured) print_measured_sd(*measured, papers::published_gains_of_drafts(folder));
}

void reproduce_heterollm(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  std::optional<papers::HeteroMeasurement> measured;
  if (!flags.measure.model.empty()) {
    papers::MeasureHeteroOptions options = flags.hetero;
    options.model = flags.measure.model;
    options.graphs = papers::hetero_lengths(flags.phones);
    options.rounds = flags.measure.rounds;
    Progress bar("measuring");
    options.progress = bar.function();
    measured = papers::measure_hetero(options);
  }
  const papers::TestReport report = papers::simulate_heterollm(folder);
  if (flags.json) {
    nlohmann::ordered_json json = report_json(report);
    if (measured) json["this_machine"] = measured_hetero_json(*measured);
    print_json(json);
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  if (measured) print_measured_hetero(*measured);
}

nlohmann::ordered_json shadow_json(const papers::PhoneFolder& folder,
                                   const papers::TestReport& report) {
  nlohmann::ordered_json json = report_json(report);
  for (const papers::ShadowSensitivity& s : papers::sensitivities_of_shadowattn(folder)) {
    json["sensitivities"].push_back({{"constant", s.text},
                                     {"all", s.median_error},
                                     {"kernels", s.kernel_speedup},
                                     {"requests", s.request_speedup},
                                     {"kept", s.orderings.n_kept},
                                     {"orderings", s.orderings.n}});
  }
  for (const papers::AblationRow& row : papers::ablation_of_shadowattn(folder)) {
    json["ablation"].push_back(
        {{"what", row.what}, {"seconds", row.seconds}, {"joules", row.joules}});
  }
  for (const papers::KernelRow& row : papers::kernels_of_shadowattn(folder)) {
    json["kernels"].push_back({{"model", row.model},
                               {"system", papers::system_name(row.system)},
                               {"seconds", row.result.seconds},
                               {"joules", row.result.joules}});
  }
  return json;
}

void print_shadow_tables(const papers::PhoneFolder& folder) {
  print("what each part is worth, Qwen2-0.5B and a request of Octopus:\n");
  for (const papers::AblationRow& row : papers::ablation_of_shadowattn(folder)) {
    print(fmt::format("  {:<40} {:>7.2f} s {:>7.2f} J\n", row.what, row.seconds, row.joules));
  }
  print("attention of one block over 1,024 tokens on the 8 Gen 2, over C/G-Full:\n");
  double full_s = 0.0, full_j = 0.0;
  for (const papers::KernelRow& row : papers::kernels_of_shadowattn(folder)) {
    const papers::KernelResult& result = row.result;
    if (row.system == papers::ShadowSystem::kFull) {
      full_s = result.seconds;
      full_j = result.joules;
    }
    print(fmt::format("  {:<14} {:<18} {:>8.1f} ms {:>6.2f} {:>9.4f} J {:>6.2f}\n", row.model,
                      papers::system_name(row.system), 1e3 * result.seconds,
                      result.seconds / full_s, result.joules, result.joules / full_j));
  }
  print("what constants that no row fixes would change:\n");
  for (const papers::ShadowSensitivity& s : papers::sensitivities_of_shadowattn(folder)) {
    print(
        fmt::format("  {:<32} all {:>5.1f} %, {} of {} orderings, mean gain of kernels {:.2f} and "
                    "of requests {:.2f}\n",
                    s.text, 100 * s.median_error, s.orderings.n_kept, s.orderings.n,
                    s.kernel_speedup, s.request_speedup));
  }
}

void reproduce_shadowattn(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (!flags.timeline.empty()) {
    Trace trace(papers::kHeadPipelineRows);
    const TimelineTitle title = papers::trace_head_pipeline(folder, &trace);
    write_file(flags.timeline, timeline_svg(trace, title));
  }
  const papers::TestReport report = papers::simulate_shadowattn(folder);
  if (flags.json) {
    print_json(shadow_json(folder, report));
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  print_shadow_tables(folder);
}

nlohmann::ordered_json power_json(const papers::TestReport& report,
                                  const std::vector<papers::OverlapRow>& overlaps) {
  nlohmann::ordered_json json = report_json(report);
  for (const papers::OverlapRow& row : overlaps) {
    json["overlaps"].push_back({{"overlap", row.overlap},
                                {"miss_rate", row.miss_rate},
                                {"tokens_per_s", row.tokens_per_s},
                                {"by_matrix", row.by_matrix},
                                {"llmflash", row.llmflash}});
  }
  return json;
}

void reproduce_powerinfer2(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (!flags.timeline.empty()) {
    Trace trace(papers::kPipelineRows);
    const TimelineTitle title = papers::trace_pipeline(folder, &trace);
    write_file(flags.timeline, timeline_svg(trace, title));
  }
  if (!flags.picture.empty()) {
    write_file(flags.picture,
               papers::budget_picture(papers::budgets_of_powerinfer2(folder),
                                      "mixtral-8x7b by neurons on a virtual 8 Gen 3"));
  }
  const papers::TestReport report = papers::simulate_powerinfer2(folder);
  const std::vector<papers::OverlapRow> overlaps = papers::overlaps_of_powerinfer2(folder);
  if (flags.json) {
    print_json(power_json(report, overlaps));
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  print("bamboo-7b, half of its FFN in memory, by how much tokens are like those before them:\n");
  for (const papers::OverlapRow& row : overlaps) {
    print(fmt::format(
        "  overlap {:<4g} {:>5.1f} % read, {:>6.2f} tokens/s; by matrices {:.2f}, as "
        "LLMFlash {:.2f}\n",
        row.overlap, 100 * row.miss_rate, row.tokens_per_s, row.by_matrix, row.llmflash));
  }
}

// Prints one line for each report, and how it was when it was first predicted; as JSON all that
// each report prints alone.
void reproduce_all(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  const std::vector<papers::Change> record = papers::read_record(flags.phones);
  const MicroReport micro = papers::simulate_micro(folder);
  const MicroReport baselines = papers::simulate_baselines(folder);
  const papers::TestReport npu = papers::simulate_llm_npu(folder);
  const papers::TestReport sd = papers::simulate_sd_npu(folder);
  const papers::TestReport hetero = papers::simulate_heterollm(folder);
  const papers::TestReport shadow = papers::simulate_shadowattn(folder);
  const papers::TestReport power = papers::simulate_powerinfer2(folder);
  const std::vector<papers::Overview> overviews = {
      {"micro", micro.count(Split::kFit) + micro.count(Split::kHeldOut), papers::figures_of(micro)},
      {"baselines", baselines.count(Split::kNone), papers::figures_of(baselines)},
      {"llm.npu", npu.count(), papers::figures_of(npu)},
      {"sd.npu", sd.count(), papers::figures_of(sd)},
      {"heterollm", hetero.count(), papers::figures_of(hetero)},
      {"shadowattn", shadow.count(), papers::figures_of(shadow)},
      {"powerinfer-2", power.count(), papers::figures_of(power)}};
  if (flags.json) {
    nlohmann::ordered_json json;
    json["micro"] = micro_json(micro);
    json["baselines"] = baselines_json(baselines);
    json["llm.npu"] = npu_json(folder, npu);
    json["sd.npu"] = report_json(sd);
    json["heterollm"] = report_json(hetero);
    json["shadowattn"] = shadow_json(folder, shadow);
    json["powerinfer-2"] = power_json(power, papers::overlaps_of_powerinfer2(folder));
    for (const papers::Overview& overview : overviews) {
      json["figures"][overview.report] = overview.figures;
    }
    print_json(json);
    return;
  }
  print(papers::overview_text(overviews, record));
}

// Says which options of measuring change nothing, because nothing is measured or not by them.
void note_idle(const Command& command, const ReproduceFlags& flags) {
  const bool measures = !flags.measure.model.empty();
  const auto say = [&](std::initializer_list<const char*> names,
                       std::initializer_list<std::string_view> reports, const char* wanted) {
    const bool is_for_it = std::find(reports.begin(), reports.end(), flags.what) != reports.end();
    if (measures && is_for_it) return;
    for (const char* name : names) {
      if (!command.is_given(name)) continue;
      note(fmt::format("note: {} does nothing here: it is for {} and --measure\n", name, wanted));
    }
  };
  say({"--plan", "--prompt", "--chunk", "--shadow-rows", "--no-cache"}, {"llm.npu"}, "llm.npu");
  say({"--rounds"}, {"llm.npu", "heterollm"}, "llm.npu, heterollm");
  say({"--device", "--prompts"}, {"heterollm"}, "heterollm");
}

void reproduce(const ReproduceFlags& flags) {
  const bool has_measured_form =
      flags.what == "llm.npu" || flags.what == "sd.npu" || flags.what == "heterollm";
  if (!has_measured_form && !flags.measure.model.empty()) {
    throw UsageError("--measure goes with llm.npu, sd.npu and heterollm.");
  }
  const bool measures_drafts = flags.what == "sd.npu" && !flags.measure.model.empty();
  if (measures_drafts == flags.tasks.empty()) {
    throw UsageError(
        "With sd.npu, --measure MODEL and --tasks FILE go together; scripts/cag_tasks.py writes "
        "such a file.");
  }
  if (!measures_drafts && !flags.draft_model.empty()) {
    throw UsageError("--draft-model goes with sd.npu and --measure.");
  }
  const bool draws =
      flags.what == "sd.npu" || flags.what == "shadowattn" || flags.what == "powerinfer-2";
  if (!draws && !flags.timeline.empty()) {
    throw UsageError("--timeline goes with sd.npu, shadowattn and powerinfer-2.");
  }
  if (flags.what != "powerinfer-2" && !flags.picture.empty()) {
    throw UsageError("--picture goes with powerinfer-2.");
  }
  if (flags.what != "micro" && flags.write) {
    throw UsageError("--write is for micro: tests fit nothing.");
  }
  if (std::error_code ignored; !std::filesystem::is_directory(flags.phones, ignored)) {
    throw Error(fmt::format(
        "There is no folder {} here. Name with --phones the folder phones of Troika's source, or "
        "share/troika/phones where it is installed.",
        flags.phones));
  }
  for (const std::string& picture : {flags.timeline, flags.picture}) {
    check_output_file(picture, {flags.measure.model, flags.tasks, flags.draft_model});
  }
  constexpr std::pair<const char*, void (*)(const ReproduceFlags&)> kReports[] = {
      {"all", reproduce_all},
      {"baselines", reproduce_baselines},
      {"llm.npu", reproduce_llm_npu},
      {"sd.npu", reproduce_sd_npu},
      {"heterollm", reproduce_heterollm},
      {"shadowattn", reproduce_shadowattn},
      {"powerinfer-2", reproduce_powerinfer2}};
  for (const auto& [what, report] : kReports) {
    if (flags.what != what) continue;
    report(flags);
    return;
  }
  papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (flags.write) papers::write_fitted(folder);
  const MicroReport report = papers::simulate_micro(folder);
  if (!flags.json) {
    print_table(report);
    print_fit_summary(report);
    print(papers::record_text(papers::read_record(flags.phones), flags.what));
    return;
  }
  print_json(micro_json(report));
}

// Adds the options of how the ablation of llm.npu is measured here.
void add_measured_npu(Command& command, papers::MeasureNpuOptions& measure) {
  command.add_option(
      "--plan", measure.plan,
      "With llm.npu and --measure: limits of outliers from this calibrated plan (default: a "
      "guess from seeded tokens)");
  command
      .add_option("--prompt", measure.n_prompt, "With llm.npu and --measure: tokens of the prompt")
      ->check(at_least(64))
      ->capture_default_str();
  command.add_option("--chunk", measure.chunk, "With llm.npu and --measure: tokens of a chunk")
      ->check(at_least(33))
      ->capture_default_str();
  command
      .add_option(
          "--rounds", measure.rounds,
          "With llm.npu, heterollm and --measure: times that every setting runs, in turn; medians "
          "count")
      ->check(at_least(1))
      ->capture_default_str();
  command
      .add_text(
          "--shadow-rows",
          [options = &measure](const std::string& text) {
            options->shadow_rows = prepare::shadow_rows_from_name(text);
          },
          "With llm.npu and --measure: which outliers' weights stay in memory: hot, all or none")
      ->shows_default("all");
  command.add_flag("!--no-cache", measure.has_cache,
                   "With llm.npu and --measure: neither use nor keep side files");
}

}  // namespace

void add_reproduce(Command& app) {
  Command* command = app.add_subcommand(
      "reproduce", "Published figures beside what a virtual phone does", kPapersGroup);
  command->examples({"troika reproduce micro --phones phones"});
  command->footer(
      "all: one line for each of the others, and how it was first predicted.\n"
      "micro: the microbenchmarks that the phones are fitted to, and those held back.\n"
      "baselines: one processor and no technique, which nothing is fitted to: llama.cpp on the "
      "CPU,\n"
      "generation on the GPU.\n"
      "llm.npu: the test rows of that paper, in and out of order, step by step.\n"
      "sd.npu: the test rows of that paper; how many drafts are accepted is taken as published.\n"
      "heterollm: the test rows of that paper.\n"
      "shadowattn: the test rows of that paper, what its parts are worth, and what constants would "
      "change\nthat no row fixes.\n"
      "powerinfer-2: the test rows of that paper; which neurons fire is drawn from a stated law.");
  auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("what", flags->what, "Which figures")
      ->required()
      ->check(one_of({"all", "micro", "baselines", "llm.npu", "sd.npu", "heterollm", "shadowattn",
                      "powerinfer-2"}));
  command->add_option("--timeline", flags->timeline,
                      "Draw, as SVG: with sd.npu a prompt during which the layout changes, with "
                      "shadowattn heads in their pipeline, with powerinfer-2 a step by clusters of "
                      "neurons");
  command->add_option("--picture", flags->picture,
                      "With powerinfer-2: draw speed over memory, as SVG");
  add_model(
      *command, "--measure", flags->measure.model,
      "A GGUF file for the column of this machine. With llm.npu the ablation, the orders of chunks "
      "and the cost of outliers really run on two lanes; with sd.npu drafts really verified; with "
      "heterollm prompts and generation really divided between a core and a device");
  command
      ->add_option("--device", flags->hetero.device,
                   "With heterollm and --measure: the lane beside the core, as in openvino:CPU "
                   "or opencl:0")
      ->capture_default_str();
  command
      ->add_option("--prompts", flags->hetero.prompts,
                   "With heterollm and --measure: tokens of the prompts")
      ->delimiter(',');
  command->add_option("--tasks", flags->tasks,
                      "With sd.npu and --measure: tasks that come with their context "
                      "(scripts/cag_tasks.py writes them)");
  command->add_option(
      "--draft-model", flags->draft_model,
      "With sd.npu and --tasks: a smaller model of the same vocabulary, whose guesses are measured "
      "too");
  add_measured_npu(*command, flags->measure);
  command->add_option("--phones", flags->phones, "Folder of phones, stacks and published figures")
      ->capture_default_str();
  command->add_flag("--write", flags->write, "Fit again, and write the constants to the files");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    note_idle(*command, *flags);
    // What was installed is read, and never written.
    if (!flags->write) flags->phones = phones_path(flags->phones);
    reproduce(*flags);
  });
}

}  // namespace troika::cli
