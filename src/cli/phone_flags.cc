#include "cli/phone_flags.h"

#include "lanes/virtual/virtual_phone.h"

namespace troika::cli {
namespace {

using prepare::npu_step_from_name;

void add_choices(Command& command, prepare::Options& options) {
  command
      .add_option("--attention-block", options.phone.heads.block,
                  "On a phone: how many positions are chosen together, and by how many queries")
      ->capture_default_str();
  command.add_flag("--attention-equal", options.phone.heads.has_equal_shares,
                   "On a phone: each head keeps as many positions, whatever it matters");
}

void add_neurons(Command& command, plan::NeuronChoice& neurons) {
  command.add_option("--ffn-share", neurons.ffn_share,
                     "Where neurons are read (see --neurons): how much of the feed-forward blocks "
                     "is in memory, 0 to 1 (default: as --memory says)");
  command.add_option("--live", neurons.live_share,
                     "With it: which share of the neurons fires at a token (default: the stack's)");
  command.add_option("--overlap", neurons.overlap,
                     "With it: how likely a neuron is to do what it did at the token before");
  command.add_text(
      "--phone-pipeline",
      [&](const auto& text) { neurons.pipeline = plan::neuron_pipeline_from_name(text); },
      "With it: reads and products overlap by cluster, by matrix, or none (default: the system's)");
  command.add_option(
      "--neuron-reads", neurons.reads_twice,
      "With it: true reads gate first and up and down once it is known, false all at "
      "once (default: what is faster on this flash)");
}

}  // namespace

void add_phones(Command& command, EngineFlags& flags) {
  prepare::Options& options = flags.options;
  command
      .add_text(
          "--machine", [&](const auto& text) { options.phone.file = text == "here" ? "" : text; },
          "here, or a virtual phone: phones/8gen3.json (then --stack too)")
      ->shows_default("here");
  command.add_option("--stack", options.phone.stack,
                     "The software on the phone, as measured for a paper: llm.npu, heterollm, ...");
  command.add_option("--prompt-stack", options.phone.prompt_stack,
                     "On a phone: another software that runs prompts (default: the same)");
  command.add_text(
      "--npu-step", [&](const auto& text) { options.phone.npu_step = npu_step_from_name(text); },
      "On a phone, llm.npu up to a step of its ablation: naive, chunk, outlier or "
      "out-of-order");
  command
      .add_option("--npu-prune", options.phone.npu_prune,
                  "With it: percent of the blocks whose outliers are ignored")
      ->capture_default_str();
  command
      .add_option("--prompt-shapes", options.phone.prompt_shapes,
                  "On a phone: the token counts for which there are graphs of prompts, ascending "
                  "(default: up to the chunk whose prompts take least time)")
      ->delimiter(',');
  command.add_flag("!--npu-plain-shapes", options.phone.has_square_shapes,
                   "On a phone: rows as they come, not the fastest of equivalent shapes");
  command.add_option("--constant", flags.constants,
                     "On a phone: NAME=VALUE, a constant of its files with another value, as in "
                     "cpu.vector_gflops=100 (repeatable)");
  command.add_text(
      "--phone-cores",
      [&](const auto& text) { options.phone.cores = lanes::cores_from_text(text); },
      "On a phone: the cores of its CPU that are there for the model, as in middle=1 or "
      "prime=1,middle=3 (default: all prime and middle ones)");
  command.add_option("--bus-taken", options.phone.bus_taken_gb_s,
                     "On a phone: GB/s that other programs read and write all the time");
  command.add_flag("--rendering", options.phone.has_rendering,
                   "On a phone: a game draws on the GPU meanwhile (constants rendering.frame_ms "
                   "and rendering.frames_per_s)");
  command
      .add_option("--device-queue", options.phone.queue_depth,
                  "On a phone: tasks that the GPU and the NPU take before the first has ended")
      ->capture_default_str();
  add_neurons(command, options.phone.neurons);
  command.add_flag("!--ordinary-handover", options.phone.has_fast_handover,
                   "On a phone: the system's synchronisation in place of a flag to poll on");
  add_choices(command, options);
}

}  // namespace troika::cli
