// Looks at flags of neurons and experts of this machine that do nothing.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "cli/flags/idle_parts.h"
#include "plan/phones/neuron_plan.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/streaming/weight_stream.h"

namespace troika::cli {
namespace {

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

// Says why it makes no difference who makes room for neurons that are read; empty: it does.
std::string idle_lru(const EngineFlags& flags) {
  const std::optional<plan::NeuronSystem>& named = flags.options.phone.neurons.system;
  if (!named) return "";
  const bool keeps_none = *named == plan::NeuronSystem::kBundle;
  return fmt::format("--neurons {} {}", plan::neuron_system_name(*named),
                     keeps_none ? "keeps no neuron in memory for the next token"
                                : "goes by who was used last itself");
}

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
  if (const std::string why = idle_lru(flags); !why.empty()) say("--neuron-lru", why);
  if (!engine.plan().ffn.predictor.is_there()) {
    say("--neuron-gates",
        "gates are in memory unless a predictor names the rows that are read (--neuron-predictor)");
  }
  const std::string why_once = idle_reads(engine);
  if (!why_once.empty()) say("--neuron-reads", why_once);
  for (const bool is_asked : {true, false}) {
    const std::string why = idle_ahead(flags, engine, is_asked);
    if (!why.empty()) say(is_asked ? "--neuron-ahead" : "--no-neuron-ahead", why);
  }
}

// Says whether the last stage of --neurons has here what the one before it has not: hot neurons,
// pins, a predictor, or another pipeline.
bool has_more_than_pipeline(const prepare::Options& options, const plan::Plan& plan) {
  const plan::StreamedNeurons planned = plan.streamed_neurons.value_or(plan::StreamedNeurons());
  const std::vector<int>& given = options.ffn.pinned_percent;
  const std::vector<int> pins = given.empty() ? plan::pins_by_tokens(planned) : given;
  return plan.ffn.hot.is_there() || plan.ffn.predictor.is_there() ||
         std::ranges::any_of(pins, [](int percent) { return percent > 0; }) ||
         prepare::neuron_reads(options.ffn, plan).pipeline != plan::ReadPipeline::kCluster;
}

}  // namespace

std::string idle_stage(const EngineFlags& flags, const prepare::Options& options,
                       const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  if (!flags.is_given("--neurons") || plan.ffn.form == plan::FfnForm::kByOutput) return "";
  const std::optional<plan::NeuronSystem>& stage = flags.options.phone.neurons.system;
  if (!reads_neurons(engine)) {
    return fmt::format(
        "--neurons is no more than --ffn by-neuron {}here: memory has room for all neurons, so "
        "none are read (see --memory)",
        stage == plan::NeuronSystem::kFlash ? "with a predictor " : "");
  }
  if (stage != plan::NeuronSystem::kXpu || has_more_than_pipeline(options, plan)) return "";
  return "--neurons powerinfer-2 is no more than --neurons pipeline here: hot neurons, pins and a "
         "predictor are missing (see --neuron-hot, --neuron-pins and --neuron-predictor)";
}

void say_of_neurons(const EngineFlags& flags, const prepare::Options& options,
                    const engine::Engine& engine, const Say& say) {
  if (engine.plan().ffn.form == plan::FfnForm::kByOutput) {
    say("--neurons", "--ffn by-output computes all neurons");
  }
  say_of_read_neurons(flags, engine, say);
  if (const std::string why = idle_expert_reads(engine, options); !why.empty()) {
    say("--expert-reads", why);
  }
}

}  // namespace troika::cli
