// troika sparsity: finds which neurons a model can do without, and what that costs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/tune/text_reading_flags.h"
#include "engine/engine.h"
#include "plan/plan_json.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/saved_plan.h"
#include "tune/default_text.h"
#include "tune/neurons/sparsity.h"
#include "tune/neurons/text_reading.h"

namespace troika::cli {
namespace {

struct SparsityFlags {
  EngineFlags engine;
  std::string file;
  std::vector<int> percents = {100, 70, 50, 30};
  size_t n_tokens = 4096;
  std::string output;
  bool json = false;
};

void print_table(const tune::SparsityReport& report) {
  print(
      fmt::format("{} tokens gave the thresholds, {} others were predicted; perplexity with all "
                  "neurons {:.3f}\n\n{:>8} {:>8} {:>12} {:>10} {:>14}\n",
                  report.n_found, report.n_measured, report.perplexity, "kept", "live",
                  "perplexity", "change", "same likeliest"));
  for (const tune::SparsityRow& row : report.rows) {
    print(fmt::format("{:>6.1f} % {:>6.1f} % {:>12.3f} {:>+8.2f} % {:>12.1f} %\n", 100 * row.kept,
                      100 * row.live, row.perplexity,
                      100 * (row.perplexity / report.perplexity - 1.0), 100 * row.agreement));
  }
}

// Notes that a model with ReLU has fewer live neurons than the least share that was asked for.
void note_dead_anyway(const tune::SparsityReport& report) {
  constexpr double kNearly = 0.95;  // a share of less is hardly chance
  const auto least = std::min_element(report.rows.begin(), report.rows.end(),
                                      [](const auto& a, const auto& b) { return a.kept < b.kept; });
  if (least == report.rows.end() || least->live > kNearly * least->kept) return;
  note(
      fmt::format("note: no more than {:.1f} % of the neurons fire at a token anyway, so that "
                  "these shares leave none out; 'troika neurons' counts which fire\n",
                  100 * least->live));
}

nlohmann::ordered_json to_json(const tune::SparsityReport& report) {
  nlohmann::ordered_json json = {{"found_on", report.n_found},
                                 {"measured_on", report.n_measured},
                                 {"perplexity", report.perplexity},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const tune::SparsityRow& row : report.rows) {
    json["rows"].push_back({{"kept", row.kept},
                            {"live", row.live},
                            {"perplexity", row.perplexity},
                            {"agreement", row.agreement},
                            {"thresholds", row.thresholds}});
  }
  return json;
}

// Returns the plan that the options make, without thresholds.
plan::PlanFile plan_of(const EngineFlags& flags) {
  prepare::Options options = flags.checked();
  // Memory is planned for all neurons.
  tune::choose_form_alone(plan::FfnForm::kEveryNeuron, &options);
  const engine::Engine engine(options);
  return {prepare::plan_identity(engine.file()), engine.plan(), std::nullopt};
}

// Writes the plan with the thresholds of the last share.
void write_plan(const SparsityFlags& flags, plan::PlanFile file,
                const tune::SparsityReport& report) {
  file.plan.ffn = report.rows.back().plan.ffn;
  write_file(flags.output, plan::to_json(file));
  note(fmt::format("{}: {:g} % of the neurons; use it with --plan\n", flags.output,
                   100 * report.rows.back().kept));
}

void run(SparsityFlags& flags) {
  refuse_known_name(flags.engine.options);
  check_output_file(flags.output, files_read_for_plan(flags.engine.options, {flags.file}));
  tune::SparsityOptions how;
  how.engine = flags.engine.checked();
  how.made = [&](const engine::Engine& engine) {
    note_idle_in_reading(flags.engine, how.engine, engine);
  };
  how.text = flags.file.empty() ? std::string(tune::default_text()) : read_text(flags.file);
  how.most_tokens = flags.n_tokens;
  how.kept.clear();
  for (const int percent : flags.percents) how.kept.push_back(percent / 100.0);
  // What the plan cannot be made with is told before minutes are spent on measuring.
  std::optional<plan::PlanFile> file;
  if (!flags.output.empty() && prepare::is_here(how.engine)) file = plan_of(flags.engine);
  tune::SparsityReport report;
  {
    Progress bar("measuring");
    how.progress = bar.function();
    report = tune::measure_sparsity(how);
  }
  flags.json ? print_json(to_json(report)) : print_table(report);
  note_dead_anyway(report);
  if (file) write_plan(flags, std::move(*file), report);
}

}  // namespace

void add_sparsity(Command& app) {
  Command* command = app.add_subcommand(
      "sparsity", "Find out which neurons a model can do without, and what that costs", kTuneGroup);
  command->examples({"troika sparsity model.gguf --keep 70,50 -o half.json"});
  command->footer(
      "A neuron whose gate's activation is small adds little. The first half of a text says below\n"
      "which magnitude the wanted share of each block's neurons lies; the second half says what "
      "is\n"
      "lost without them.");
  auto flags = std::make_shared<SparsityFlags>();
  flags->engine.add_to(*command, PhoneHelp::kNone);
  command->add_option("-f,--file", flags->file, "A text (default: the program's own)")
      ->names_file();
  command
      ->add_option("--keep", flags->percents,
                   "Percent of the neurons that stay live, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--tokens", flags->n_tokens, "Most tokens of the text")
      ->check(at_least(tune::kLeastSparsityTokens))
      ->capture_default_str();
  command
      ->add_option("-o,--output", flags->output,
                   "Write a plan with the thresholds of the last share")
      ->names_file();
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { run(*flags); });
}

}  // namespace troika::cli
