#include "cli/flags/phone_flags.h"

#include "cli/installed.h"
#include "lanes/virtual/virtual_phone.h"

namespace troika::cli {
namespace {

using prepare::npu_stage_from_name;

void add_choices(Command& command, prepare::Options& options) {
  command
      .add_option("--attention-block", options.phone.heads.block,
                  "How many positions sparse attention chooses together, and by how many queries")
      ->capture_default_str();
  command.add_flag("--attention-equal", options.phone.heads.has_equal_shares,
                   "Each head keeps as many positions, however much it matters");
}

void add_neurons(Command& command, plan::NeuronChoice& neurons) {
  command.add_option("--ffn-share", neurons.ffn_share,
                     "Where neurons are read (see --neurons): how much of the feed-forward blocks "
                     "is in memory, 0 to 1 (default: as --memory says)");
  command.add_option("--live", neurons.live_share,
                     "Where neurons are read (see --neurons): which share of them fires at a "
                     "token, 0 to 1 (default: the stack's)");
  command.add_option("--overlap", neurons.overlap,
                     "Where neurons are read (see --neurons): how likely one is to do what it did "
                     "at the token before, 0 to 1 (default: the stack's)");
  command.add_text(
      "--phone-pipeline",
      [&](const auto& text) { neurons.pipeline = plan::neuron_pipeline_from_name(text); },
      "Where neurons are read (see --neurons): reads and products overlap by cluster, by matrix or "
      "not at all (none) (default: as --neurons says)");
}

}  // namespace

void add_phones(Command& command, EngineFlags& flags) {
  prepare::Options& options = flags.options;
  command
      .add_text(
          "--machine",
          [&](const auto& text) { options.phone.file = text == "here" ? "" : phones_path(text); },
          "here, or the file of a virtual phone, as phones/8gen3.json, which needs --stack too; "
          "what the working folder lacks of phones/ is taken from where it was installed")
      ->shows_default("here");
  command.add_option("--stack", options.phone.stack,
                     "The software on the phone, as measured for a paper: llm.npu, heterollm, ...");
  command.add_option("--prompt-stack", options.phone.prompt_stack,
                     "Another software for prompts (default: that of --stack)");
  command.add_text(
      "--npu-step", [&](const auto& text) { options.phone.npu_stage = npu_stage_from_name(text); },
      "Run as llm.npu does up to this stage of its ablation: naive, chunk, outlier or "
      "out-of-order");
  command
      .add_option(
          "--npu-prune", options.phone.npu_prune,
          "With --npu-step outlier or out-of-order: percent of the blocks whose outliers are "
          "ignored")
      ->capture_default_str();
  command
      .add_option("--prompt-shapes", options.phone.prompt_shapes,
                  "The token counts for which there are graphs of prompts, ascending "
                  "(default: up to the chunk whose prompts take least time)")
      ->delimiter(',');
  command.add_flag("!--npu-plain-shapes", options.phone.has_square_shapes,
                   "Give the NPU rows as they come, not the fastest of equivalent shapes");
  command.add_option("--constant", flags.constants,
                     "NAME=VALUE: a constant of the phone's files with another value, as in "
                     "cpu.vector_gflops=100 (repeatable)");
  command.add_text(
      "--phone-cores",
      [&](const auto& text) { options.phone.cores = lanes::cores_from_text(text); },
      "The cores of the phone's CPU that are there for the model, as in middle=1 or "
      "prime=1,middle=3 (default: all prime and middle ones)");
  command.add_option("--bus-taken", options.phone.bus_taken_gb_s,
                     "GB/s of the phone's bus that other programs read and write all the time");
  command.add_flag("--rendering", options.phone.has_rendering,
                   "A game draws on the phone's GPU meanwhile (see --constant: rendering.frame_ms, "
                   "rendering.frames_per_s)");
  command
      .add_option("--device-queue", options.phone.queue_depth,
                  "Tasks that the phone's GPU and the NPU take before the first has ended")
      ->check(at_least(1))
      ->capture_default_str();
  add_neurons(command, options.phone.neurons);
  command.add_flag(
      "!--ordinary-handover", options.phone.has_fast_handover,
      "Lanes wait for each other by the system's synchronisation in place of a flag to "
      "poll on");
  add_choices(command, options);
}

}  // namespace troika::cli
