// troika reproduce: shows the published figures beside what this program simulates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/timeline/timeline.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "cli/installed.h"
#include "cli/output.h"
#include "cli/papers/paper_reports.h"
#include "cli/papers/reports.h"
#include "cli/use/models.h"
#include "papers/baselines.h"
#include "papers/micro/micro.h"
#include "papers/record.h"

namespace troika::cli {
namespace {

using papers::MicroReport;
using papers::Split;

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
    print_micro_table(report);
    print_test_summary(report);
    print(papers::record_text(papers::read_record(flags.phones), flags.what));
    return;
  }
  print_json(baselines_json(report));
}

void reproduce_micro(const ReproduceFlags& flags) {
  papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  if (flags.write) papers::write_fitted(folder);
  const MicroReport report = papers::simulate_micro(folder);
  if (!flags.json) {
    print_micro_table(report);
    print_fit_summary(report);
    print(papers::record_text(papers::read_record(flags.phones), flags.what));
    return;
  }
  print_json(micro_json(report));
}

void draw(const PaperReport& paper, const papers::PhoneFolder& folder,
          const ReproduceFlags& flags) {
  if (!flags.timeline.empty()) {
    Trace trace(*paper.timeline_rows);
    const TimelineTitle title = paper.trace(folder, &trace);
    write_file(flags.timeline, timeline_svg(trace, title));
  }
  if (!flags.picture.empty()) write_file(flags.picture, paper.picture(folder));
}

// Simulates a paper's runs, of which some take minutes, and says so before.
papers::TestReport simulate(const PaperReport& paper, const papers::PhoneFolder& folder) {
  note(fmt::format("simulating {}, which may take minutes\n", paper.name));
  return paper.simulate(folder);
}

void reproduce_paper(const PaperReport& paper, const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  draw(paper, folder, flags);
  // Measuring comes first, because simulating warms the cores up.
  std::optional<MeasuredHere> measured;
  if (!flags.measure.model.empty()) measured = paper.measure(folder, flags);
  papers::TestReport report = simulate(paper, folder);
  if (measured && measured->fill) measured->fill(&report);
  if (flags.json) {
    nlohmann::ordered_json json = paper.to_json(folder, report);
    if (measured) json["this_machine"] = measured->to_json();
    print_json(json);
    return;
  }
  print_report(report, papers::read_record(flags.phones), flags.what);
  if (paper.print_more != nullptr) paper.print_more(folder);
  if (measured) measured->print();
}

// Prints one line for each report, and how it was when it was first predicted; as JSON all that
// each report prints alone.
void reproduce_all(const ReproduceFlags& flags) {
  const papers::PhoneFolder folder = papers::read_phone_folder(flags.phones);
  const std::vector<papers::Change> record = papers::read_record(flags.phones);
  const MicroReport micro = papers::simulate_micro(folder);
  const MicroReport baselines = papers::simulate_baselines(folder);
  std::vector<papers::Overview> overviews = {
      {"micro", micro.count(Split::kFit) + micro.count(Split::kHeldOut), papers::figures_of(micro)},
      {"baselines", baselines.count(Split::kNone), papers::figures_of(baselines)}};
  std::vector<papers::TestReport> reports;
  for (const PaperReport& paper : paper_reports()) {
    reports.push_back(simulate(paper, folder));
    overviews.push_back({paper.name, reports.back().count(), papers::figures_of(reports.back())});
  }
  if (!flags.json) {
    print(papers::overview_text(overviews, record));
    return;
  }
  nlohmann::ordered_json json;
  json["micro"] = micro_json(micro);
  json["baselines"] = baselines_json(baselines);
  for (size_t i = 0; i < reports.size(); ++i) {
    const PaperReport& paper = paper_reports()[i];
    json[paper.name] = paper.to_json(folder, reports[i]);
  }
  for (const papers::Overview& overview : overviews) {
    json["figures"][overview.report] = overview.figures;
  }
  print_json(json);
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

// Refuses an option that only some papers have. `has` says which.
void refuse_for_others(const char* option, const ReproduceFlags& flags,
                       bool (*has)(const PaperReport&)) {
  std::vector<std::string> names;
  for (const PaperReport& paper : paper_reports()) {
    if (has(paper)) names.push_back(paper.name);
  }
  if (std::find(names.begin(), names.end(), flags.what) != names.end()) return;
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  throw UsageError(fmt::format("{} goes with {}.", option, text));
}

// Returns the files that reproducing reads. What lies below the folder of phones is read as a
// whole.
std::vector<std::string> files_read_for(const ReproduceFlags& flags) {
  namespace fs = std::filesystem;
  std::vector<std::string> read = {flags.measure.model, flags.measure.plan, flags.tasks,
                                   flags.draft_model};
  std::error_code failure;
  fs::recursive_directory_iterator place(flags.phones,
                                         fs::directory_options::skip_permission_denied, failure);
  for (; !failure && place != fs::recursive_directory_iterator(); place.increment(failure)) {
    if (place->path().extension() == ".json") read.push_back(place->path().string());
  }
  return read;
}

void check_flags(const ReproduceFlags& flags) {
  const bool measures = !flags.measure.model.empty();
  if (measures) {
    refuse_for_others("--measure", flags,
                      [](const PaperReport& paper) { return paper.measure != nullptr; });
  }
  const bool measures_drafts = flags.what == "sd.npu" && measures;
  if (measures_drafts == flags.tasks.empty()) {
    throw UsageError(
        "With sd.npu, --measure MODEL and --tasks FILE go together; scripts/cag_tasks.py writes "
        "such a file.");
  }
  if (!measures_drafts && !flags.draft_model.empty()) {
    throw UsageError("--draft-model goes with sd.npu and --measure.");
  }
  if (!flags.timeline.empty()) {
    refuse_for_others("--timeline", flags,
                      [](const PaperReport& paper) { return paper.trace != nullptr; });
  }
  if (!flags.picture.empty()) {
    refuse_for_others("--picture", flags,
                      [](const PaperReport& paper) { return paper.picture != nullptr; });
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
  const std::vector<std::string> read = files_read_for(flags);
  check_output_file(flags.timeline, read);
  check_output_file(flags.picture, read);
}

void reproduce(const ReproduceFlags& flags) {
  check_flags(flags);
  if (flags.what == "all") return reproduce_all(flags);
  if (flags.what == "micro") return reproduce_micro(flags);
  if (flags.what == "baselines") return reproduce_baselines(flags);
  for (const PaperReport& paper : paper_reports()) {
    if (flags.what == paper.name) return reproduce_paper(paper, flags);
  }
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
  std::vector<std::string> reports = {"all", "micro", "baselines"};
  std::string about =
      "all: one line for each of the others, and how it was first predicted.\n"
      "micro: the microbenchmarks that the phones are fitted to, and those held back.\n"
      "baselines: one processor and no technique, which nothing is fitted to: llama.cpp on the "
      "CPU,\n"
      "generation on the GPU.";
  for (const PaperReport& paper : paper_reports()) {
    reports.push_back(paper.name);
    about += fmt::format("\n{}: the test rows of that paper{}.", paper.name, paper.about);
  }
  about += "\nSimulating a paper's runs may take minutes; all simulates those of every paper.";
  command->footer(about);
  auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("FIGURES", flags->what, "Which figures")->required()->check(one_of(reports));
  command->add_option("--timeline", flags->timeline,
                      "Draw, as SVG: with sd.npu a prompt during which the layout changes, with "
                      "shadowattn heads in their pipeline, with powerinfer-2 a step by clusters of "
                      "neurons");
  command->add_option("--picture", flags->picture,
                      "With powerinfer-2: draw speed over memory, as SVG");
  command->begin_group("Measuring on this machine");
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
  command->end_group();
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
