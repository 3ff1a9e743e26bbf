// troika plan: what was decided about a model on this machine, as a file and as a table.
#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/bench_virtual.h"
#include "cli/common.h"
#include "cli/compare_plans.h"
#include "cli/explain.h"
#include "engine/phone_setup.h"
#include "engine/saved_plan.h"
#include "plan/plan_json.h"

namespace troika::cli {
namespace {

struct PlanFlags {
  EngineFlags engine;
  std::string output;
  bool explain = false;
  bool ops = false;  // in --explain, op by op
  bool choose = false;
  int n_turns = 0;  // of --compare
  std::vector<int> prompts = {32, 300, 1024};
  bool json = false;
};

// Chooses by the profile, and runs as chosen if asked to compare.
void choose(PlanFlags& flags) {
  const engine::PlanChoice choice = choose_and_print(flags.engine, flags.prompts);
  flags.engine.options.made_plan = choice.candidates[choice.best].plan;
  if (flags.n_turns > 0) compare_and_print(flags.engine, choice, flags.prompts, flags.n_turns);
}

void make(PlanFlags& flags) {
  if (flags.choose || flags.n_turns > 0) {
    if (flags.engine.options.machine != "here") {
      throw UsageError("--choose is for this machine; on a phone every plan is chosen.");
    }
    choose(flags);
    if (!flags.explain && !flags.json && flags.output.empty()) return;
  }
  // On a phone nothing need be computed to plan, so that a name is enough.
  flags.engine.options.has_values = flags.engine.options.machine == "here";
  const auto engine = load(flags.engine);
  const std::string machine =
      engine->phone_setup() != nullptr ? engine->phone_setup()->name() : std::string();
  const std::string json =
      plan::to_json({engine::plan_identity(engine->file(), machine), engine->plan()});
  if (!flags.output.empty()) {
    AtomicFile file(flags.output);
    file.write(json);
    file.commit();
    fmt::print(stderr, "{}: {} bytes\n", flags.output, json.size());
  }
  if (flags.explain) {
    if (engine->phone() != nullptr) {
      explain_on_phone(*engine);
      print("\n");
      explain_shared(*engine);
    } else {
      explain(*engine, flags.engine, flags.ops);
    }
  }
  if (flags.json || (flags.output.empty() && !flags.explain)) print(json);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Decide how a model runs here: lanes, shapes, precisions");
  command->footer(
      "Examples:\n"
      "  troika plan model.gguf --explain\n"
      "  troika plan model.gguf --compare 10 -p 32,300,1024\n"
      "  troika plan model.gguf --lanes \"0;1\" --place ffn=1 -o plan.json\n"
      "  troika plan llama-3-8b --machine phones/8gen3.json --stack heterollm --explain\n"
      "  troika run model.gguf --plan plan.json -p \"Once upon a time\"");
  auto flags = std::make_shared<PlanFlags>();
  flags->engine.add_to(*command);
  command->add_option("-o,--output", flags->output, "Write the plan to this file");
  command
      ->add_option("--type", flags->engine.options.type,
                   "Of the weights, where MODEL is the name of a known model")
      ->capture_default_str();
  command->add_flag("--explain", flags->explain,
                    "Show what runs where, in which precision, and the time it takes");
  command->add_flag("--ops", flags->ops, "In --explain, each op by itself");
  command->add_flag(
      "--choose", flags->choose,
      "Choose lanes and chunk by the profile of this machine, measuring what it misses");
  command
      ->add_option("--compare", flags->n_turns,
                   "Choose, and run all candidates in turn so many times")
      ->check(at_least(1));
  command->add_option("-p,--prompts", flags->prompts, "Prompt lengths to choose for")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print the plan (also the default)");
  command->callback([flags] { make(*flags); });
}

}  // namespace troika::cli
