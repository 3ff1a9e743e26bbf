#include "cli/flags/idle_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/flags/idle_parts.h"
#include "cli/output.h"
#include "machines/phone_setup.h"
#include "plan/plan_json.h"
#include "prepare/int8/outlier_channels.h"
#include "solve/lane_memory.h"

namespace troika::cli {
namespace {

constexpr const char* kOfPhones[] = {"--stack",
                                     "--prompt-stack",
                                     "--npu-step",
                                     "--npu-prune",
                                     "--npu-plain-shapes",
                                     "--constant",
                                     "--ordinary-handover",
                                     "--prompt-shapes",
                                     "--phone-cores",
                                     "--bus-taken",
                                     "--ffn-share",
                                     "--live",
                                     "--overlap",
                                     "--phone-pipeline",
                                     "--attention-block",
                                     "--attention-equal",
                                     "--rendering",
                                     "--device-queue"};
// Lists the flags that say how a phone's sparse attention goes.
constexpr const char* kOfPhoneHeads[] = {"--attention-lanes",   "--attention-heads",
                                         "--attention-buckets", "--attention-block",
                                         "--attention-equal",   "--attention-share"};
// A plan from a file replaces what these flags say.
constexpr const char* kOfPlans[] = {"--threads",
                                    "--lanes",
                                    "--place",
                                    "--lane-memory",
                                    "--lane-busy",
                                    "--context",
                                    "--kv",
                                    "--activations",
                                    "--prefill",
                                    "--attention",
                                    "--attention-share",
                                    "--attention-from",
                                    "--attention-above",
                                    "--attention-lanes",
                                    "--attention-heads",
                                    "--attention-buckets",
                                    "--attention-block",
                                    "--attention-equal",
                                    "--chunk",
                                    "--npu-step",
                                    "--npu-prune",
                                    "--packed"};
// Lists what a plan of a phone replaces besides: shapes, and how neurons are held and read.
constexpr const char* kOfPhonePlans[] = {"--prompt-shapes",  "--memory",      "--neurons",
                                         "--ffn-share",      "--live",        "--overlap",
                                         "--phone-pipeline", "--neuron-reads"};
constexpr const char* kOfThisMachine[] = {
    "--prefill",      "--attention-from",  "--attention-above", "--int8",
    "--int8-weights", "--weight-outliers", "--outlier-prune",   "--packed"};

bool has_work(const model::Blueprint& blueprint, const plan::Plan& plan, int lane) {
  const bool has_outliers = prepare::takes_outliers_out(plan, plan.int8.method);
  const auto brings_work = [&](const plan::Placement& rule) {
    return rule.lane == lane && (rule.subgraph != "shadow" || has_outliers) &&
           solve::meets_executable(blueprint, plan, rule);
  };
  const auto is_here = [&](const auto& rule) { return rule.lane == lane; };
  const auto has_share = [&](const plan::Shares& shares) {
    return std::any_of(shares.begin(), shares.end(), is_here);
  };
  const std::vector<int>& of_heads = plan.attention.head_lanes;
  const plan::FfnHot& hot = plan.ffn.hot;
  return lane == 0 || (hot.is_there() && hot.lane == lane) ||
         std::find(of_heads.begin(), of_heads.end(), lane) != of_heads.end() ||
         std::any_of(plan.placements.begin(), plan.placements.end(), brings_work) ||
         std::any_of(plan.cuts.begin(), plan.cuts.end(),
                     [&](const plan::TensorCut& cut) {
                       return has_share(cut.rows) || has_share(cut.tokens) || has_share(cut.heads);
                     }) ||
         std::any_of(plan.lengths.begin(), plan.lengths.end(),
                     [&](const plan::LengthCut& length) { return has_share(length.tokens); });
}

std::string shapes_text(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Shape& shape : plan.body_shapes()) {
    names.push_back(fmt::format("{} ({})", shape.n_rows, plan::phase_name(shape.phase)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Says whether any executable of the plan has the phase and the rows that a cut is for.
bool has_shape(const plan::Plan& plan, const plan::TensorCut& cut) {
  const std::string name = cut.subgraph.empty() ? "ffn" : cut.subgraph;
  std::vector<plan::Shape> shapes = plan.body_shapes();
  for (const plan::LengthCut& length : plan.lengths) {
    shapes.push_back({plan::Phase::kPrompt, length.n_tokens});
  }
  if (name == "head") {
    shapes.clear();
    for (const int n : plan.output_shapes) shapes.push_back({plan::Phase::kStep, n});
  }
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](plan::Shape shape) { return cut.holds_for(name, shape); });
}

// Says whether --no-cuts takes anything away.
bool has_cuts_to_remove(const prepare::Options& options) {
  const auto has_any = [](const plan::Plan& plan) {
    return !plan.cuts.empty() || !plan.lengths.empty();
  };
  if (options.plan.base) return has_any(*options.plan.base);
  if (!options.plan.file.empty()) {
    // A pipe has been read to its end: nobody can say any more what it held.
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(options.plan.file, ignored)) return true;
    return has_any(plan::plan_from_json(read_text(options.plan.file), options.plan.file).plan);
  }
  // A phone finds cuts of its own where it is asked for them.
  return !prepare::is_here(options) && options.lanes.solves_cuts;
}

// Refuses --neuron-pipeline beside a --neurons that fixes it; only the last stage leaves it open.
void refuse_pipeline_beside_stage(const EngineFlags& flags) {
  const std::optional<plan::NeuronSystem> stage = flags.options.phone.neurons.system;
  if (!stage || *stage == plan::NeuronSystem::kXpu || !flags.is_given("--neuron-pipeline")) return;
  throw UsageError(
      fmt::format("--neurons {} says what is computed while neurons are read. Leave "
                  "--neuron-pipeline out, or use it with --neurons powerinfer-2.",
                  plan::neuron_system_name(*stage)));
}

}  // namespace

std::string given_phone_flag(const EngineFlags& flags) {
  if (!prepare::is_here(flags.options)) return "--machine";
  for (const char* name : kOfPhones) {
    if (flags.is_given(name)) return name;
  }
  // Processors are a phone's, numbers are lanes of this machine.
  return flags.options.phone.heads.lanes.empty() ? "" : "--attention-lanes";
}

void refuse_idle_flags(const EngineFlags& flags) {
  if (prepare::is_here(flags.options)) {
    const std::string name = given_phone_flag(flags);
    if (name == "--attention-lanes") {
      throw UsageError(
          "--attention-lanes names lanes of this machine by their numbers, as in 1,0,0; processors "
          "are those of a virtual phone (--machine phones/8gen3.json).");
    }
    if (!name.empty()) {
      throw UsageError(fmt::format(
          "{} is for a virtual phone, and this run is on this machine. Name the phone too "
          "(--machine phones/8gen3.json --stack llm.npu), or leave {} out.",
          name, name));
    }
    refuse_pipeline_beside_stage(flags);
    return;
  }
  if (!flags.options.prompts.attention_lanes.empty()) {
    throw UsageError(
        "--attention-lanes names the processors of a phone, as in npu,cpu,cpu; numbers are those "
        "of lanes of this machine.");
  }
  for (const char* name : kOfThisMachine) {
    if (!flags.is_given(name)) continue;
    throw UsageError(
        fmt::format("{} is for prompts on this machine. How a phone computes them is a matter of "
                    "--stack and --npu-step; leave {} out.",
                    name, name));
  }
  if (flags.is_given("--fast-handover")) {
    throw UsageError(
        "--fast-handover is for lanes of this machine. On a phone handovers are fast unless "
        "--ordinary-handover is given; leave it out.");
  }
  // A plan says its stage itself, and that --npu-prune does nothing beside it is told once it is
  // read.
  const bool has_outliers =
      flags.options.phone.npu_stage.value_or(plan::NpuStage::kNaive) >= plan::NpuStage::kOutlier;
  if (flags.is_given("--npu-prune") && !has_outliers && flags.options.plan.file.empty()) {
    throw UsageError(
        "--npu-prune says which blocks have outliers of their own, which they have from a stage of "
        "llm.npu on. Give --npu-step outlier or out-of-order too, or leave it out.");
  }
  for (const char* name : kOfPhoneHeads) {
    const bool has_heads = flags.options.prompts.attention == plan::AttentionForm::kQuery;
    // A plan says itself what its heads do.
    if (!flags.is_given(name) || has_heads || !flags.options.plan.file.empty()) continue;
    throw UsageError(fmt::format(
        "{} says how sparse attention goes, and here prompts attend to all positions. Give "
        "--attention query too, or leave it out.",
        name));
  }
}

namespace {

// Looks at the flags about lanes, and about what is divided between them.
void say_of_lanes(const EngineFlags& flags, const prepare::Options& options, const plan::Plan& plan,
                  const Say& say) {
  if (plan.lanes.size() == 1) {
    say("--fast-handover", "one lane hands nothing over");
    const char* why = "one lane computes the parts of a prompt, one after the other";
    say("--order", why);
    say("--in-flight", why);
    if (options.plan.file.empty()) {  // otherwise the plan's file decides
      // Outliers are tasks of their own then, on one lane too.
      if (!plan.places_shadow()) say("--place", "there is one lane, which computes everything");
      say("--lane-memory", "there is one lane, which has room for all weights");
    }
  } else if (plan.order != plan::Order::kOutOfOrder) {
    say("--in-flight",
        fmt::format("{} takes {}", plan::order_name(plan.order),
                    plan.order == plan::Order::kLockStep ? "two chunks at a time"
                                                         : "one chunk after the other"));
  }
  if (flags.is_given("--no-cuts") && !has_cuts_to_remove(options)) {
    say("--no-cuts", "neither cuts nor lengths are in a plan that this run follows");
  }
  if (const std::vector<plan::LaneCap> caps = flags.checked().lanes.caps;
      std::none_of(caps.begin(), caps.end(), [](plan::LaneCap cap) {
        return cap.busy_percent < plan::PlannedLane::kAllTime;
      })) {
    say("--lane-busy", "no lane rests that may be busy for all of the time");
  }
  for (const plan::TensorCut& cut : plan.cuts) {
    if (has_shape(plan, cut)) continue;
    say("--cut", fmt::format("no executable has as many rows as {} is for; they are built for {}",
                             plan::cut_text(cut), shapes_text(plan)));
  }
}

// Returns "of 'head' is for prompts of 2 tokens or more": what a rule is for.
std::string text_of_rule(const plan::Placement& rule) {
  std::string text = rule.subgraph.empty() ? "of any subgraph is for"
                                           : fmt::format("of '{}' is for", rule.subgraph);
  if (rule.phase) text += *rule.phase == plan::Phase::kPrompt ? " prompts" : " steps";
  if (rule.least_tokens == 0) return text;
  return text + fmt::format("{} {} tokens or more", rule.phase ? " of" : "", rule.least_tokens);
}

}  // namespace

void say_of_places(const std::vector<plan::Placement>& rules, const engine::Engine& engine,
                   const Say& say) {
  const model::Blueprint& blueprint = engine.blueprint();
  for (const plan::Placement& rule : rules) {
    if (solve::meets_executable(blueprint, engine.plan(), rule)) continue;
    const bool is_there = solve::meets_executable(blueprint, engine.plan(), {rule.subgraph});
    say("--place", is_there
                       ? fmt::format("no executable {}", text_of_rule(rule))
                       : fmt::format("'{}' is no subgraph of its own here (see --cut-at-norms and "
                                     "--cut-at-activations)",
                                     rule.subgraph));
  }
}

namespace {

// Looks at what flags about lanes can do on this machine.
void say_of_lanes_here(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  const plan::Plan& plan = engine.plan();
  const prepare::LaneChoice asked = flags.checked().lanes;
  if (asked.solves_cuts) {
    say("--cut",
        "on this machine 'troika plan MODEL --choose' and 'troika tune' find the cuts of "
        "least time, by what they measure");
  }
  for (int lane = 0; lane < static_cast<int>(plan.lanes.size()); ++lane) {
    if (has_work(engine.blueprint(), plan, lane)) continue;
    say("--lanes", fmt::format("lane {} has no work and stays idle; place some on it "
                               "(--place ffn={}) or leave --lanes out",
                               lane, lane));
  }
  if (plan.lanes.size() == 1) {
    for (const char* name : {"--cut-at-norms", "--cut-at-activations"}) {
      say(name, "there is one lane, which computes all subgraphs");
    }
  } else if (flags.options.plan.file.empty()) {
    say_of_places(asked.placements, engine, say);
  }
  if (!plan.places_shadow()) {
    say("--shadow-rows", "no lane has the outliers of products (--place shadow=LANE)");
  } else if (!prepare::takes_outliers_out(plan, plan.int8.method)) {
    say("--shadow-rows", "prompts take no outliers out (see --int8)");
  }
}

// Looks at what a plan from a file says itself.
void say_of_plan(const EngineFlags& flags, const plan::Plan& plan, const Say& say) {
  const std::string& file = flags.options.plan.file;
  const std::string why =
      fmt::format("{} says it; leave --plan out, or make another with 'troika plan'", file);
  for (const std::string_view name : kOfPlans) {
    // Where no prompt is in int8, that is the nearer reason.
    if (name == "--packed" && plan.prefill != plan::Prefill::kInt8) continue;
    say(name.data(), why);
  }
  say("--no-plan", "--plan names the one that counts");
  if (prepare::is_here(flags.options)) return;
  for (const char* name : kOfPhonePlans) say(name, why);
  // Cuts that are named beside it replace those of the plan.
  const prepare::LaneChoice lanes = flags.checked().lanes;
  if (!lanes.solves_cuts) return;
  say(lanes.cuts.empty() ? "--cut" : lanes.divides_by_margin ? "--cut margin" : "--cut auto", why);
}

}  // namespace

std::vector<std::string> idle_flags(const EngineFlags& flags, const prepare::Options& options,
                                    const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::vector<std::string> sentences;
  std::vector<std::string> said;
  const Say say = [&](const std::string& name, const std::string& why) {
    if (!flags.is_given(name.substr(0, name.find(' ')))) return;
    sentences.push_back(fmt::format("{} does nothing here: {}", name, why));
    said.push_back(name);
  };
  if (!flags.options.plan.file.empty()) say_of_plan(flags, plan, say);
  // What the plan's file decides is idle whatever else holds: one reason is enough.
  const std::vector<std::string> by_plan = said;
  const Say say_else = [&](const char* name, const std::string& why) {
    if (std::find(by_plan.begin(), by_plan.end(), name) == by_plan.end()) say(name, why);
  };
  say_of_lanes(flags, options, plan, say_else);
  if (!prepare::is_here(flags.options)) {
    say_of_phone(flags, engine, say_else);
    return sentences;
  }
  say_of_lanes_here(flags, engine, say_else);
  say_of_prompts(plan, say_else);
  say_of_neurons(flags, options, engine, say_else);
  if (std::string sentence = idle_stage(flags, options, engine); !sentence.empty()) {
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

std::vector<std::string> broken_rules(const EngineFlags& flags, const engine::Engine& engine) {
  if (!flags.options.plan.file.empty()) return {};  // the plan's own rules count
  std::vector<plan::Placement> rules = flags.checked().lanes.placements;
  if (const machines::PhoneSetup* phone = engine.phone().setup) rules = phone->rules;
  return solve::broken_rules(engine.blueprint(), engine.plan(), rules);
}

}  // namespace troika::cli
