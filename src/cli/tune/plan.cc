// troika plan: shows what was decided about a model on this machine, as a file and as a table.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/load.h"
#include "cli/measure/bench_virtual.h"
#include "cli/output.h"
#include "cli/tune/busy_machine.h"
#include "cli/tune/compare_plans.h"
#include "cli/tune/explain.h"
#include "cli/tune/kept_plan.h"
#include "cli/tune/neuron_plan_text.h"
#include "cli/use/memory.h"
#include "engine/engine.h"
#include "machines/phone_setup.h"
#include "model/limits.h"
#include "plan/plan_json.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/saved_plan.h"
#include "tune/calibrate.h"
#include "tune/neurons/plan_here.h"

namespace troika::cli {
namespace {

struct PlanFlags {
  EngineFlags engine;
  std::string output;
  bool explain = false;
  bool ops = false;  // shows ops in --explain
  bool choose = false;
  bool choose_neurons = false;
  std::string profile;  // names a profile that neurons are planned by; empty: the kept one
  int n_turns = 0;      // counts turns of --compare
  std::vector<int> prompts = {32, 300, 1024};
  bool has_own_prompts = false;  // says that these were asked for
  bool json = false;
  std::string calibrate;  // names a text file to calibrate with
  size_t calibrate_tokens = 8192;
  bool alternatives = false;
};

// Says what of a plan that was given does not hold for lanes that are chosen.
void note_not_kept(const plan::Plan& like) {
  const std::vector<std::string> parts = tune::parts_not_kept(like);
  if (parts.empty()) return;
  note(
      fmt::format("note: lanes are chosen anew, so what the plan has for its own is not kept: {}\n",
                  fmt::join(parts, ", ")));
}

// Chooses a plan by the profile, and runs the candidates if asked to compare. What was calibrated
// just now, or stands in the plan file that was given, stays.
void choose(PlanFlags& flags) {
  prepare::Options& options = flags.engine.options;
  std::optional<plan::Plan> like = options.plan.exact;
  if (!like && !options.plan.file.empty()) {
    like = prepare::load_plan(options.plan.file,
                              prepare::plan_identity(gguf::File::open(options.model.file)))
               .plan;
    prepare::check_is_here(options.plan.file, *like);
    note_not_kept(*like);
  }
  options.plan.file.clear();
  options.plan.exact.reset();
  tune::PlanChoice choice = choose_and_print(flags.engine, flags.prompts, like ? &*like : nullptr);
  if (flags.n_turns > 0) compare_and_print(flags.engine, flags.prompts, flags.n_turns, &choice);
  // The candidate's context was that of the measurements. The plan's context follows from memory.
  options.plan.base = choice.candidates[choice.best].plan;
}

// Says which options change nothing about the plan or what is shown of it.
void note_idle(const Command& command, const PlanFlags& flags) {
  const auto say = [&](const char* name, bool is_idle, const char* why) {
    if (!is_idle || !command.is_given(name)) return;
    note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  const bool is_here = prepare::is_here(flags.engine.options);
  say("--ops", !flags.explain, "it shows more where --explain shows anything");
  say("--ops", flags.explain && !is_here, "on a phone --explain shows subgraphs");
  for (const char* name : {"--alternatives", "--calibrate-tokens"}) {
    say(name, flags.calibrate.empty(), "it is for --calibrate");
  }
  say("--pre", flags.calibrate.empty(), "no text is read but that of --calibrate");
  say("--prompts", !flags.choose && flags.n_turns == 0, "it is for --choose and --compare");
  std::error_code ignored;
  say("--type", std::filesystem::exists(flags.engine.options.model.file, ignored),
      "MODEL is a file, whose weights have types of their own");
}

// Refuses prompts that --compare runs and the context that was asked for does not hold. Of those
// that nobody asked for, the longer ones are left out.
void fit_prompts(PlanFlags* flags) {
  const int context = flags->engine.options.memory.context;
  if (flags->n_turns == 0 || context <= 0) return;
  const int longest = *std::max_element(flags->prompts.begin(), flags->prompts.end());
  if (longest <= context) return;
  if (flags->has_own_prompts) {
    throw UsageError(fmt::format(
        "--compare runs prompts of {} tokens, as --prompts asks, and --context {} holds fewer. Ask "
        "for shorter prompts, or for a longer context.",
        longest, context));
  }
  std::erase_if(flags->prompts, [&](int n) { return n > context; });
  if (flags->prompts.empty()) flags->prompts = {context};
}

// Refuses what does not go together, before minutes are spent on measuring.
void check_choices(const PlanFlags& flags) {
  if (flags.choose_neurons && (flags.choose || flags.n_turns > 0)) {
    throw UsageError(
        fmt::format("--choose-neurons is for one lane, and {} for several. Leave one out.",
                    flags.choose ? "--choose" : "--compare"));
  }
  if (flags.choose_neurons && !flags.calibrate.empty()) {
    throw UsageError(
        "--calibrate makes a plan, and --choose-neurons makes another one. Leave one out.");
  }
  if (flags.choose_neurons) tune::check_neuron_request(flags.engine.checked());
  if (!flags.profile.empty() && !flags.choose_neurons) {
    throw UsageError(
        "--profile says what --choose-neurons plans by. Give that too, or leave it out.");
  }
}

// Chooses how blocks are computed whose neurons are more than ‹memory› holds (P8).
void choose_neurons(PlanFlags& flags) {
  tune::NeuronPlanRequest request;
  request.options = flags.engine.checked();
  std::optional<plan::Profile> profile;
  if (!flags.profile.empty()) profile = plan::load_profile(flags.profile);
  if (profile) request.profile = &*profile;
  request.keeps_profile = !profile && request.options.memory.has_side_files &&
                          !is_machine_busy("the profile that is taken now is not kept");
  std::unique_ptr<Progress> bar;
  prepare::Options chosen = tune::plan_neurons_here(request, [&](const std::string& name) {
    bar.reset();
    bar = std::make_unique<Progress>("measuring " + name);
    return bar->function();
  });
  bar.reset();
  flags.engine.options.ffn = chosen.ffn;
  flags.engine.options.memory.held_bytes = chosen.memory.held_bytes;
  note(fmt::format("neurons were planned in {:.1f} ms: {}\n", chosen.ffn.planned->planning_ms,
                   with_flags(chosen.ffn.planned->reason)));
}

void print_losses(const plan::Int8Plan& int8) {
  note(
      fmt::format("{} tokens of {}: perplexity {:.4f} in float; within the limits lie {:g} % of "
                  "the magnitudes\nint8 method     outliers ignored   loss\n",
                  int8.n_tokens, int8.text, int8.perplexity, 100 * int8.quantile));
  for (const plan::Int8Loss& loss : int8.losses) {
    note(fmt::format("{:<15} {:>14} % {:>+7.2f} %\n", loss.method, loss.outlier_prune,
                     100 * loss.loss));
  }
}

// Prints the inputs whose outliers matter most: those that N6 would ignore last.
void print_important(const plan::Int8Plan& int8) {
  constexpr size_t kMost = 8;
  std::vector<const plan::Int8Input*> inputs;
  for (const plan::Int8Input& input : int8.inputs) inputs.push_back(&input);
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const auto* a, const auto* b) { return a->importance() > b->importance(); });
  inputs.resize(std::min(inputs.size(), kMost));
  note("most important inputs        largest/limit  outliers/token  channels with any  hot ones\n");
  for (const plan::Int8Input* input : inputs) {
    note(fmt::format("{:<28} {:>13.1f} {:>15.2f} {:>18} {:>9}\n", input->weight,
                     input->importance(), input->outliers_per_token, input->n_outlier_channels,
                     input->hot_channels.size()));
  }
}

// Finds out how prompts can be computed in int8, and puts it into the plan that is made next.
void calibrate(PlanFlags& flags) {
  prepare::Options& options = flags.engine.options;
  if (!prepare::is_here(options)) {
    throw UsageError("--calibrate is for this machine; a virtual phone computes no values.");
  }
  tune::CalibrateOptions how;
  how.engine = flags.engine.checked();
  how.text = read_text(flags.calibrate);
  how.text_name = std::filesystem::path(flags.calibrate).filename().string();
  how.most_tokens = flags.calibrate_tokens;
  how.alternatives = flags.alternatives;
  if (options.memory.has_side_files) how.folder = cache_folder();
  tune::Calibration calibration;
  {
    Progress bar("calibrating");
    how.progress = bar.function();
    calibration = tune::calibrate(how);
  }
  if (calibration.n_found_earlier > 0) {
    note(fmt::format("{} of {} passes had been made by a calibration that was cut off\n",
                     calibration.n_found_earlier, calibration.n_passes));
  }
  print_losses(calibration.int8);
  print_important(calibration.int8);
  // The plan is asked for int8, so that memory is planned for it.
  prepare::Options planned = flags.engine.checked();
  prepare::PromptChoice& prompts = planned.prompts;
  const bool is_free = !prompts.prefill && !prompts.int8;
  if (is_free && calibration.prefill == plan::Prefill::kInt8) prompts.prefill = calibration.prefill;
  const std::optional<plan::Int8Method> method = prompts.int8;
  if (method) prompts.int8 = plan::Int8Method::kToken;
  const engine::Engine engine(planned);
  plan::Plan plan = engine.plan();
  plan.int8 = calibration.int8;
  if (method) plan.int8.method = *method;
  prompts.int8 = method;
  prepare::fit_context(planned, engine.blueprint(), engine.weights(), &plan, engine.memory());
  if (is_free && plan.prefill == calibration.prefill) plan.prefill_reason = calibration.reason;
  note(fmt::format("prompts: {} ({})\n", plan::prefill_name(plan.prefill),
                   terminal_text(plan.prefill_reason)));
  options.plan.exact = std::move(plan);
  options.prompts.int8.reset();
}

void make(PlanFlags& flags) {
  refuse_known_name(flags.engine.options);
  check_choices(flags);
  fit_prompts(&flags);
  check_output_file(flags.output,
                    files_read_for_plan(flags.engine.options, {flags.calibrate, flags.profile}));
  take_heads_of_kept_plan(flags.engine, &flags.engine.options.prompts);
  if (!flags.calibrate.empty()) {
    calibrate(flags);
  }
  if (flags.choose || flags.n_turns > 0) {
    if (!prepare::is_here(flags.engine.options)) {
      throw UsageError("--choose is for this machine; on a phone every plan is chosen.");
    }
    const TablesAside aside(flags.json);
    choose(flags);
    if (!flags.explain && !flags.json && flags.output.empty()) return;
  }
  if (flags.choose_neurons) choose_neurons(flags);
  // On a phone nothing need be computed to plan, so that a model's name is enough.
  flags.engine.options.phone.has_values = prepare::is_here(flags.engine.options);
  const auto engine = load(flags.engine);
  const std::string machine =
      engine->phone().setup != nullptr ? engine->phone().setup->identity() : std::string();
  const std::string json =
      plan::to_json({prepare::plan_identity(engine->file(), machine), engine->plan()});
  if (!flags.output.empty()) {
    write_file(flags.output, json);
    note(fmt::format("{}: {} bytes\n", flags.output, json.size()));
  }
  if (flags.explain) {
    const TablesAside aside(flags.json);
    if (engine->phone().machine != nullptr) {
      explain_on_phone(*engine);
      print("\n");
      explain_shared(*engine);
    } else {
      explain(*engine, flags.engine, flags.ops);
      print(streamed_neurons_text(engine->plan()));
    }
  }
  if (flags.json && flags.explain && engine->phone().machine == nullptr) {
    // The memory stands beside the plan and is no part of it.
    nlohmann::ordered_json both = nlohmann::ordered_json::parse(json);
    both["memory"] = memory_json(*engine);
    print_json(both);
  } else if (flags.json || (flags.output.empty() && !flags.explain)) {
    print(json);
  }
}

void add_calibration(Command& command, PlanFlags& flags) {
  command
      .add_option(
          "--calibrate", flags.calibrate,
          "Run the text of this file to find the scales and outliers of int8 prompts, and what "
          "each method loses; --prefill auto then takes int8 where it loses little. "
          "Cut off, it goes on where it stood when the same is asked again")
      ->names_file();
  command
      .add_option("--calibrate-tokens", flags.calibrate_tokens,
                  "With --calibrate: how many tokens of the text, from its beginning")
      ->check(at_least(64))
      ->capture_default_str();
  command.add_flag("--alternatives", flags.alternatives,
                   "With --calibrate: calibrate SmoothQuant too, and measure llm.int8 and group");
}

}  // namespace

void add_plan(Command& app) {
  Command* command = app.add_subcommand(
      "plan", "Decide how a model runs here: lanes, shapes, precisions", kTuneGroup);
  command->examples(
      {"troika plan model.gguf --explain",
       "troika plan model.gguf --calibrate book.txt -o plan.json",
       "troika plan relu.gguf --memory 3G --choose-neurons --explain -o plan.json",
       "troika plan model.gguf --compare 10 -p 32,300,1024 -o plan.json",
       "troika plan model.gguf --lanes \"0;1\" --place ffn=1 -o plan.json",
       "troika plan llama-3-8b --machine phones/8gen3.json --stack heterollm --explain",
       "troika run model.gguf --plan plan.json -p \"Once upon a time\""});
  auto flags = std::make_shared<PlanFlags>();
  flags->engine.add_to(*command, PhoneHelp::kListed);
  flags->engine.writes_plans = true;
  command->add_option("-o,--output", flags->output, "Write the plan to this file")->names_file();
  command
      ->add_option("--type", flags->engine.options.model.type,
                   "Element type of the weights, where MODEL is a name of 'troika synth --list'")
      ->capture_default_str();
  command->add_flag("--explain", flags->explain,
                    "Show what runs where, in which precision, and the time it takes");
  command->add_flag("--ops", flags->ops, "In --explain, each op by itself");
  command->add_flag(
      "--choose", flags->choose,
      "Choose lanes and chunk by the profile of this machine, measuring what it misses");
  command->add_flag(
      "--choose-neurons", flags->choose_neurons,
      "Choose, for this --memory, how blocks, or experts, with ReLU are computed: by-output or "
      "by-neuron, where gates are, how many neurons are pinned; by what 'troika neurons' counted "
      "and this machine's "
      "profile. A predictor is taken only with --neuron-predictor, because it changes answers");
  command
      ->add_option("--profile", flags->profile,
                   "With --choose-neurons: plan by this profile (see 'troika profile') and "
                   "measure nothing")
      ->names_file();
  command
      ->add_option("--compare", flags->n_turns, "Choose, run all in turn N times, keep the fastest")
      ->check(at_least(1));
  add_calibration(*command, *flags);
  command->add_option("-p,--prompts", flags->prompts, "Prompt lengths to choose for")
      ->delimiter(',')
      ->check(within(1, model::kMostContext))
      ->capture_default_str();
  command->add_flag(
      "--json", flags->json,
      "Print the plan (also the default, but with --choose), with --explain with what is kept in "
      "memory; tables then go "
      "to standard error");
  command->callback([flags, command] {
    note_idle(*command, *flags);
    flags->has_own_prompts = command->is_given("--prompts");
    make(*flags);
  });
}

}  // namespace troika::cli
