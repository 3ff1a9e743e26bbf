// Looks at flags that do nothing on a virtual phone: those of this machine, and those that the
// phone's software or lanes leave without effect.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "cli/flags/idle_parts.h"
#include "machines/phone_setup.h"
#include "plan/phones/neuron_plan.h"
#include "solve/time_model.h"

namespace troika::cli {
namespace {

bool has_lane(const plan::Plan& plan, std::initializer_list<const char*> kinds) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const plan::PlannedLane& lane) {
    return std::find(kinds.begin(), kinds.end(), lane.kind) != kinds.end();
  });
}

// Says which flags of this machine no phone reads.
void say_of_this_machine(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  for (const char* name : {"--ffn", "--neuron-predictor", "--neuron-hot", "--neuron-hot-lane",
                           "--neuron-pipeline", "--neuron-pins", "--neuron-gates", "--neuron-gap",
                           "--neuron-lru", "--neuron-ahead", "--no-neuron-ahead"}) {
    say(name, "it is for this machine; of a phone its planner decides, and --phone-pipeline");
  }
  say("--expert-reads", "it is for this machine; on a phone neurons are read (see --neurons)");
  say("--shadow-rows",
      "it is for --place shadow on this machine; on a phone see --npu-step outlier");
  say("--no-plan", "it is for this machine; no model is tuned for a phone");
  say("--no-cache", "it is for this machine; a phone reads and keeps no side files");
  if (engine.has_values()) return;
  const char* const no_values =
      "this phone takes time and computes no values; it counts where a phone computes them, as in "
      "'troika run'";
  for (const char* name : {"--threads", "--load", "--kernels"}) say(name, no_values);
  if (!flags.writes_plans) say("--activations", no_values);
  say("--strict-npu",
      "this phone takes time and computes no values, so that nothing has scales; it counts on this "
      "machine");
}

void say_of_phone_lanes(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  const plan::Plan& plan = engine.plan();
  const prepare::LaneChoice asked = flags.checked().lanes;
  if (plan.lanes.size() > 1 && flags.options.plan.file.empty()) {
    say_of_places(asked.placements, engine, say);
  }
  if (!has_lane(plan, {"gpu"})) {
    say("--rendering", "the GPU, on which a game draws, is no lane here (see --lanes)");
  }
  if (!has_lane(plan, {"gpu", "npu"})) {
    say("--device-queue", "neither the GPU nor the NPU is a lane here (see --lanes)");
  }
  if (!asked.solves_cuts) return;
  if (plan.lanes.size() == 1) {
    say("--cut", "one lane has nobody to divide its work with (see --lanes)");
  } else if (!asked.has_cuts) {
    say("--cut", "--no-cuts leaves out the cuts that would be found; leave that out");
  } else if (asked.divides_by_margin &&
             std::none_of(plan.lanes.begin(), plan.lanes.end(), solve::has_fixed_shapes)) {
    say("--cut",
        "margin divides no prompt, because no lane takes some lengths alone, as an NPU does");
  }
}

// Says which flags of the shapes of products do nothing.
void say_of_shapes(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  if (!flags.options.phone.prompt_shapes.empty()) {
    say("--chunk", "the longest of --prompt-shapes is the chunk");
  }
  const machines::PhoneSetup& setup = *engine.phone().setup;
  const bool is_plain =
      machines::is_law_of_plain_products(setup.model.stack()) ||
      (setup.prompt_model && machines::is_law_of_plain_products(setup.prompt_model->stack()));
  if (!has_lane(engine.plan(), {"npu"})) {
    say("--npu-plain-shapes", "the NPU is no lane here (see --lanes)");
  } else if (!is_plain) {
    say("--npu-plain-shapes",
        fmt::format("the NPU's times of {} were measured at the fastest shapes, or over whole "
                    "passes, and no shape is chosen; it counts with --stack llm.npu",
                    setup.name()));
  }
}

void say_of_phone_neurons(const plan::Plan& plan, const Say& say) {
  if (!plan.neurons) {
    for (const char* name : {"--live", "--overlap", "--phone-pipeline", "--neuron-reads"}) {
      say(name, "this phone reads no neurons (see --neurons and --ffn-share)");
    }
  } else if (!plan.neurons->has_bundles()) {
    say("--neuron-reads", fmt::format("{} has no bundles of neurons",
                                      plan::neuron_system_name(plan.neurons->system)));
  }
}

}  // namespace

void say_of_phone(const EngineFlags& flags, const engine::Engine& engine, const Say& say) {
  say_of_this_machine(flags, engine, say);
  if (flags.options.memory.limit_bytes == 0) {
    say("--memory", "what is free here says nothing of a phone; give it a number of bytes");
  }
  say_of_phone_lanes(flags, engine, say);
  say_of_shapes(flags, engine, say);
  say_of_phone_neurons(engine.plan(), say);
  const machines::PhoneSetup& setup = *engine.phone().setup;
  const bool is_ordered = setup.heads.is_on() && setup.heads.stage == schedule::HeadStage::kOrdered;
  if (is_ordered && !setup.orders_heads()) {
    say("--attention-heads",
        "in lock step (see --order) no order of heads is planned, and heads "
        "go as with 'fused'");
  }
}

}  // namespace troika::cli
