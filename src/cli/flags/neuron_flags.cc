#include "cli/flags/neuron_flags.h"

namespace troika::cli {
namespace {

void add_forms(Command& command, prepare::Options& options) {
  command
      .add_text(
          "--ffn", [&](const auto& text) { options.ffn.form = plan::ffn_form_from_name(text); },
          "How generation computes feed-forward blocks with ReLU: by-output (all neurons), "
          "by-neuron (those whose activation is not 0, with a copy of the last matrix by column) "
          "or every-neuron (the sums of by-neuron with all neurons, to compare)")
      ->shows_default("by-output, or the plan's");
  command.add_text(
      "--neurons",
      [&](const auto& text) { options.phone.neurons.system = plan::neuron_system_from_name(text); },
      "Hold and read neurons as a stage of PowerInfer-2's ablation does, with --ffn by-neuron: "
      "bundle, cache, pipeline or powerinfer-2, or as llmflash does, with a predictor" +
          command.on_phones("; on a phone also mmap, plain and powerinfer (default: powerinfer-2 "
                            "on a phone whose memory --memory limits)"));
  command.add_flag(
      "--neuron-predictor", options.ffn.has_predictor,
      "With --ffn by-neuron: compute only those rows of the gate whose neurons the predictor "
      "of 'troika neurons --predictor' expects to fire; a missed one counts as 0");
}

// Adds what lets hot neurons be a task of their own.
void add_hot(Command& command, prepare::FfnChoice& ffn) {
  command
      .add_option(
          "--neuron-hot", ffn.hot_percent,
          "With --ffn by-neuron: percent of each block's neurons that are computed densely, "
          "those that fired most often in the text of 'troika neurons'. They are tasks of "
          "their own, beside those of the other neurons")
      ->shows_default("0, or the plan's");
  command
      .add_option("--neuron-hot-lane", ffn.hot_lane,
                  "With --neuron-hot: the lane that computes them, one of --lanes")
      ->shows_default("the last one");
}

// Adds what counts where neurons are read from the disk.
void add_reads(Command& command, prepare::Options& options) {
  prepare::FfnChoice& ffn = options.ffn;
  command
      .add_text(
          "--neuron-reads",
          [&](const auto& text) {
            ffn.reads = plan::bundle_reads_from_name(text);
            options.phone.neurons.reads_twice = ffn.reads == plan::BundleReads::kTwice;
          },
          "Where generation reads neurons with their gates (see --neuron-gates): each in one "
          "request (once), or the gate first, and the rest if it fires (twice)")
      ->shows_default("once, or the plan's" +
                      command.on_phones("; on a phone what is faster on its flash"));
  command
      .add_text(
          "--neuron-gates", [&](const auto& text) { ffn.gates = plan::ffn_gates_from_name(text); },
          "With --neuron-predictor, where --memory has no room for all neurons: gates are read "
          "with the neurons that are expected to fire, which leaves more memory to these "
          "(bundles), or stay in memory, so that only what fires is read (memory)")
      ->shows_default("bundles, or the plan's");
  command
      .add_text(
          "--neuron-pipeline",
          [&](const auto& text) { ffn.pipeline = plan::read_pipeline_from_name(text); },
          "Where --memory has no room for all neurons: compute those of a cluster as soon as they "
          "have been read (cluster), or when all of the matrix have been (matrix)")
      ->shows_default("cluster");
  command
      .add_option("--neuron-pins", ffn.pinned_percent,
                  "Where --memory has no room for all neurons: percent of the places that the "
                  "hottest keep for good, as 'troika neurons' counted them; the others go by who "
                  "was used last. Several, as in 60,30,0: for steps of one token, of two, and of "
                  "more, as several answers and drafts have (default: 0, or the plan's)")
      ->delimiter(',');
  command.add_flag(
      "!--neuron-lru", ffn.keeps_last_steps,
      "Where --memory has no room for all neurons: whichever neuron was used longest ago makes "
      "room, "
      "of all layers. By default what the last token needed stays, in each layer, so that a token "
      "which needs more than there is room for still finds most of what it has in common with the "
      "one before");
  command.add_flag(
      "--neuron-ahead", ffn.reads_hottest_ahead,
      "Where --memory has no room for all neurons: generation reads the next layer's hottest while "
      "the disk is free, as 'troika neurons' counted them");
  command.add_flag("!--no-neuron-ahead", ffn.reads_ahead,
                   "Read no neurons of the next layer while the disk is free, as prompts by neuron "
                   "(--prefill same) do by default");
  command
      .add_option("--neuron-gap", ffn.gap_bytes,
                  "Neurons that stand no further apart on the disk are read together, with what "
                  "lies between them (default: as far as this disk reads in the time of another "
                  "request, which is measured at the start)")
      ->with_byte_units();
}

}  // namespace

void add_neuron_flags(Command& command, prepare::Options& options) {
  add_forms(command, options);
  add_hot(command, options.ffn);
  add_reads(command, options);
}

}  // namespace troika::cli
