#include "cli/flags/idle_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "cli/output.h"
#include "machines/heads_here.h"
#include "machines/phone_setup.h"
#include "plan/phones/neuron_plan.h"
#include "plan/plan_json.h"
#include "prepare/int8/outlier_channels.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/streaming/weight_stream.h"
#include "solve/lane_memory.h"
#include "solve/time_model.h"

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
constexpr const char* kOfThisMachine[] = {
    "--prefill",      "--attention-from",  "--attention-above", "--int8",
    "--int8-weights", "--weight-outliers", "--outlier-prune",   "--packed"};

// Is said where stages of PowerInfer-2's ablation do not differ.
constexpr const char* kIdleStage =
    "--neurons is no more than --ffn by-neuron {}here: memory has room for all neurons, so none "
    "are read (see --memory)";

// Lists the flags that concern prompts in int8 only.
constexpr const char* kOfInt8[] = {"--int8",          "--int8-weights", "--weight-outliers",
                                   "--outlier-prune", "--packed",       "--strict-npu"};

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

bool reads_neurons(const engine::Engine& engine) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  return stream != nullptr && stream->neurons() != nullptr;
}

// Says why no neurons are read ahead, whether it is asked for or forbidden; empty: some would be.
std::string idle_ahead(const EngineFlags& flags, const engine::Engine& engine, bool is_asked) {
  const std::optional<plan::NeuronSystem>& stage = flags.options.phone.neurons.system;
  if (stage == plan::NeuronSystem::kBundle || stage == plan::NeuronSystem::kCache ||
      stage == plan::NeuronSystem::kFlash) {
    return fmt::format("the stage {} of --neurons reads none ahead",
                       plan::neuron_system_name(*stage));
  }
  if (engine.loaded().stream->neurons()->ffns().front().ffn.is_expert()) {
    return "which experts the next block takes is not known yet";
  }
  if (is_asked) {
    return engine.loaded().stream->neurons()->knows_heat()
               ? ""
               : "nobody has counted which neurons are hot (see 'troika neurons')";
  }
  return engine.plan().prefill == plan::Prefill::kSame ? "" : "prompts read whole matrices";
}

// Says why it makes no difference how experts are read; empty: it does.
std::string idle_expert_reads(const engine::Engine& engine, const prepare::Options& options) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  if (stream == nullptr) return "all weights are in memory (see --memory)";
  if (engine.blueprint().n_experts == 0) return "this model has no experts";
  const plan::Plan& plan = engine.plan();
  const prepare::ExpertStream* const experts = stream->experts();
  if (experts == nullptr && plan.prefill == plan::Prefill::kInt8) {
    return "prompts in int8 need all experts of a block, which is read as a whole";
  }
  if (experts == nullptr && plan.ffn.is_by_neuron()) {
    if (!engine.weights().neurons()->ffns().front().ffn.is_expert()) {
      return "beside neurons that are read, blocks are read with all their experts";
    }
    if (plan.ffn.predictor.is_there() && plan.ffn.gates == plan::FfnGates::kInBundles) {
      return "gates are read with the neurons that the predictor names";
    }
    if (stream->n_streamed() == 0) return "the gates of all experts are in memory";
    if (plan.ffn.predictor.is_there()) {
      return "a predictor names rows of gates when it is too late to read the others, so that "
             "gates take turns as a whole";
    }
    return options.memory.expert_reads == prepare::ExpertReads::kInOrder
               ? ""
               : "the gates of one block are nearly all that there are, and take turns as a whole";
  }
  if (options.memory.expert_reads != prepare::ExpertReads::kGuessed) return "";
  if (plan.ffn.is_by_neuron()) {
    return "gates are read by route where the neurons behind them are read, and none is guessed";
  }
  if (experts != nullptr && experts->takes_guesses()) return "";
  return "blocks take turns in memory, routers among them, so nothing is guessed and experts are "
         "read by route; more --memory lets routers stay";
}

// Says why neurons are read in one request each, whatever was asked for; empty: they need not be.
std::string idle_reads(const engine::Engine& engine) {
  const plan::FfnPlan& ffn = engine.plan().ffn;
  if (!ffn.predictor.is_there() || ffn.gates != plan::FfnGates::kInBundles) {
    return "gates are in memory (see --neuron-predictor and --neuron-gates)";
  }
  const weights::BundleShape& shape = engine.loaded().stream->neurons()->file().layout().shape();
  if (shape.first_bytes > 0) return "";
  return fmt::format("a gate has no page of its own in the {} bytes of a neuron",
                     shape.bundle_bytes);
}

// Says a sentence where the flag of this name was given.
using Say = std::function<void(const char* name, const std::string& why)>;

// Says which flags do nothing of those that are for neurons which are read.
void say_of_read_neurons(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  if (!reads_neurons(engine)) {
    for (const char* name :
         {"--neuron-pipeline", "--neuron-pins", "--neuron-gates", "--neuron-reads", "--neuron-gap",
          "--neuron-lru", "--neuron-ahead", "--no-neuron-ahead"}) {
      say(name, "no neurons are read while others are computed (see --ffn)");
    }
    return;
  }
  const std::string why_once = idle_reads(engine);
  if (!why_once.empty()) say("--neuron-reads", why_once);
  for (const bool is_asked : {true, false}) {
    const std::string why = idle_ahead(flags, engine, is_asked);
    if (!why.empty()) say(is_asked ? "--neuron-ahead" : "--no-neuron-ahead", why);
  }
}

// Says which flags of neurons do nothing on a phone.
void say_of_phone_neurons(const plan::Plan& plan, const Say& say) {
  for (const char* name : {"--neuron-pipeline", "--neuron-pins", "--neuron-gates", "--neuron-gap",
                           "--neuron-lru", "--neuron-ahead", "--no-neuron-ahead"}) {
    say(name, "it is for this machine; of a phone its planner decides, and --phone-pipeline");
  }
  if (!plan.neurons) {
    for (const char* name : {"--live", "--overlap", "--phone-pipeline", "--neuron-reads"}) {
      say(name, "this phone reads no neurons (see --neurons and --ffn-share)");
    }
  } else if (!plan.neurons->has_bundles()) {
    say("--neuron-reads", fmt::format("{} has no bundles of neurons",
                                      plan::neuron_system_name(plan.neurons->system)));
  }
}

// Says whether the stages of --neurons do not differ, because no neurons are read.
bool has_idle_stage(const EngineFlags& flags, const engine::Engine& engine) {
  return !reads_neurons(engine) && flags.is_given("--neurons") &&
         engine.plan().ffn.form != plan::FfnForm::kByOutput;
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

// Says why an option of sparse attention changes nothing; empty: it does change something.
std::string idle_attention(const plan::Plan& plan, std::string_view option) {
  if (!plan.attention.is_sparse()) {
    return option == "--attention" ? "" : "prompts attend to all positions (see --attention)";
  }
  const bool is_of_query = option == "--attention-lanes" || option == "--attention-heads" ||
                           option == "--attention-buckets";
  if (is_of_query && plan.attention.form != plan::AttentionForm::kQuery) {
    return fmt::format("it is for --attention query, and here it is {}",
                       plan::attention_form_name(plan.attention.form));
  }
  if (option == "--attention-heads" && !plan.attention.has_head_lanes()) {
    return "heads are no tasks of their own (see --attention-lanes)";
  }
  if (option == "--attention-heads" && plan.attention.head_stage == plan::HeadStage::kOrdered &&
      !machines::orders_heads(plan)) {
    return fmt::format("{}, and heads go as with 'fused'",
                       plan.lanes.size() == 1
                           ? "one lane has no order of heads to plan"
                           : "in lock step (see --order) no order of heads is planned");
  }
  if (option == "--attention-above" && !plan.attention.is_by_weight()) {
    return fmt::format("{} goes by shares", plan::attention_form_name(plan.attention.form));
  }
  if (plan.context > plan.attention.from) return "";
  return fmt::format("the context holds {} tokens, and tokens before position {} attend to all",
                     plan.context, plan.attention.from);
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
  if (flags.is_given("--npu-prune") && !flags.options.phone.npu_stage &&
      flags.options.plan.file.empty()) {
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
      say("--place", "there is one lane, which computes everything");
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

// Looks at rules that no executable follows.
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
  }
}

// Says which flags for prompts in int8 do nothing.
void say_of_int8(const plan::Plan& plan, const Say& say) {
  if (plan.prefill != plan::Prefill::kInt8) {
    const std::string why =
        fmt::format("prompts are computed in {}, not in int8", plan::prefill_name(plan.prefill));
    for (const char* name : kOfInt8) {
      const bool fixes_estimate = plan.attention.n_buckets > 0;
      if (fixes_estimate && std::string_view(name) == "--strict-npu") continue;
      say(name, why);
    }
    return;
  }
  if (!plan::has_shadow(plan.int8.method)) {
    say("--outlier-prune", fmt::format("the method {} takes outliers out of {}",
                                       plan::int8_method_name(plan.int8.method),
                                       prepare::takes_outliers_out(plan, plan.int8.method)
                                           ? "every product, however little they matter"
                                           : "none"));
  }
  if (plan.int8.weight_scales != plan::WeightScales::kInt4) {
    say("--weight-outliers", fmt::format("weights have 8 bits (--int8-weights {})",
                                         plan::weight_scales_name(plan.int8.weight_scales)));
  }
}

}  // namespace

std::vector<std::string> idle_flags(const EngineFlags& flags, const prepare::Options& options,
                                    const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::vector<std::string> sentences;
  const Say say = [&](const char* name, const std::string& why) {
    if (flags.is_given(name))
      sentences.push_back(fmt::format("{} does nothing here: {}", name, why));
  };
  if (!flags.options.plan.file.empty()) {
    for (const std::string_view name : kOfPlans) {
      // Where no prompt is in int8, that is the nearer reason.
      if (name == "--packed" && plan.prefill != plan::Prefill::kInt8) continue;
      say(name.data(),
          fmt::format("{} says it; leave --plan out, or make another with 'troika plan'",
                      flags.options.plan.file));
    }
  }
  say_of_lanes(flags, options, plan, say);
  if (!prepare::is_here(flags.options)) {
    if (flags.checked().lanes.divides_by_margin &&
        std::none_of(plan.lanes.begin(), plan.lanes.end(), solve::has_fixed_shapes)) {
      sentences.emplace_back(
          "--cut margin divides no prompt here: no lane takes some lengths alone, as an NPU does");
    }
    say_of_phone_neurons(plan, say);
    return sentences;
  }
  say_of_lanes_here(flags, engine, say);
  for (const char* name :
       {"--attention", "--attention-share", "--attention-from", "--attention-above",
        "--attention-lanes", "--attention-heads", "--attention-buckets"}) {
    if (const std::string why = idle_attention(plan, name); !why.empty()) say(name, why);
  }
  if (plan.ffn.form == plan::FfnForm::kByOutput) {
    say("--neurons", "--ffn by-output computes all neurons");
  }
  say_of_read_neurons(flags, engine, say);
  if (has_idle_stage(flags, engine)) {
    const bool is_flash = flags.options.phone.neurons.system == plan::NeuronSystem::kFlash;
    sentences.push_back(fmt::format(kIdleStage, is_flash ? "with a predictor " : ""));
  }
  if (const std::string why = idle_expert_reads(engine, options); !why.empty()) {
    say("--expert-reads", why);
  }
  say_of_int8(plan, say);
  return sentences;
}

std::vector<std::string> broken_rules(const EngineFlags& flags, const engine::Engine& engine) {
  if (!flags.options.plan.file.empty()) return {};  // the plan's own rules count
  std::vector<plan::Placement> rules = flags.checked().lanes.placements;
  if (const machines::PhoneSetup* phone = engine.phone().setup) rules = phone->rules;
  return solve::broken_rules(engine.blueprint(), engine.plan(), rules);
}

}  // namespace troika::cli
