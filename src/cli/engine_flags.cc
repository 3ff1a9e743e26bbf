// The options of every command that runs a model, in the groups in which --help shows them.
#include "cli/common.h"
#include "cli/use/models.h"

namespace troika::cli {
namespace {

void add_machine(Command& command, prepare::Options& options) {
  command.add_option("-t,--threads", options.n_threads, "Threads (default: all usable cores)");
  command.add_option("-c,--context", options.context,
                     "Tokens of context (default: what model and memory allow, at most 8192)");
  command
      .add_option("--memory", options.memory_bytes,
                  "What the program may keep in memory: 1900M, 2G; what does not fit is refused, "
                  "and a context that was not asked for is shortened. auto: of what is free, half "
                  "bounds what is copied and cached (default)")
      ->with_byte_units_or_auto();
  command
      .add_option("--load", options.load,
                  "Where weights lie: map (in the pages of the file, in its order), copy (in "
                  "memory, in huge pages, 16 rows side by side, which several tokens read much "
                  "faster), auto (copy if half of the free memory will do)")
      ->capture_default_str();
  command.add_flag("!--no-cache", options.has_cache,
                   "Neither use nor keep side files: with '--place shadow' all weights of "
                   "outliers stay in memory");
  command.add_option("--plan", options.plan,
                     "Run as this plan says (see 'troika plan'); it sets threads, lanes, "
                     "placements, context, --kv, --activations and --prefill");
  command.add_option("--kernels", options.kernels,
                     "The fastest kernels allowed, as named by --version (default: the fastest)");
  command.add_option("--pre", options.pre_tokenizer,
                     "Use this pre-tokenizer instead of the one the file names");
}

void add_precision(Command& command, EngineFlags& flags) {
  prepare::Options& options = flags.options;
  command.add_option("--kv", flags.kv, "Type of cached keys and values: f32, f16 or q8_0")
      ->capture_default_str();
  command
      .add_option("--activations", flags.activations,
                  "How activations meet block-quantised weights: q8 (fast) or f32 (exact)")
      ->capture_default_str();
  command
      .add_option(
          "--prefill", options.prefill,
          "How prompts are computed: f32 (exact), bf16, q8 (products as in generation, "
          "attention in bf16), int8 (fastest; a model's outlying activations may suffer), "
          "same (as generation), or auto: as 'troika tune' found, else q8 or bf16, the faster "
          "one here")
      ->capture_default_str();
  command.add_option("--chunk", options.chunk,
                     "Tokens of a prompt that go together (default: the plan's)");
  command.add_option("--int8", options.int8,
                     "Prompts in int8 by this method: token (a scale for each token), static (one "
                     "for each tensor), token-shadow and shadow (the same, outliers in float "
                     "beside), smooth, llm.int8 or group; replaces the method of --plan");
  command.add_option("--int8-weights", options.int8_weights,
                     "Scales of int8 weights: one for each row, or for the whole tensor");
  command.add_option("--outlier-prune", options.outlier_prune,
                     "Percentage of the products, the least important, whose outliers are ignored "
                     "(default: as the plan says, else 85)");
  command.add_flag("--strict-npu", options.is_strict_npu,
                   "Matrix lanes may use only scales that are fixed beforehand");
  command
      .add_option("--packed", options.packed_bytes,
                  "Most bytes of packed copies of weights, which spare int8 prompts the unpacking "
                  "(default: none)")
      ->with_byte_units();
  command.add_option("--layouts", options.layouts,
                     "Layouts of the weights for int8 prompts and for generation: blocks (those "
                     "of the file for both), both (packed copies of all beside them) or switch "
                     "(one copy, which changes its layout while the prompt is computed; default: "
                     "as --packed says)");
}

void add_lanes(Command& command, prepare::Options& options) {
  command.add_option(
      "--lanes", options.lanes,
      "Groups of cores that work as lanes: \"0,1\" is one lane, \"0;1\" are two; of a "
      "phone its processors: \"cpu;npu\"");
  command.add_option("--place", options.placements,
                     "SUBGRAPH=LANE or SUBGRAPH@TOKENS=LANE: where embed, norm, qkv, attention, "
                     "out, ffn or head run (repeatable; default: lane 0); shadow: the lane of int8 "
                     "prompts' outliers, at the same time as the products they belong to");
  command.add_option("--order", options.order,
                     "Chunks of a prompt on several lanes: in-order, lock-step (two at a time) or "
                     "out-of-order (default: the plan's, out-of-order)");
  command.add_option("--in-flight", options.chunks_in_flight,
                     "Chunks that several lanes work on at once, each with buffers of its own "
                     "(default: the plan's, 4; of a phone 8)");
  command.add_flag("--cut-at-norms", options.is_cut_at_norms,
                   "Norms, and the projection behind attention, are subgraphs that can be placed");
  command
      .add_option("--shadow-rows", options.shadow_rows,
                  "With '--place shadow', which channels' weights stay in memory: hot (those that "
                  "calibration found; a disk lane reads the others from a side file), all or none")
      ->capture_default_str();
}

void add_phones(Command& command, prepare::Options& options) {
  command
      .add_option("--machine", options.machine,
                  "here, or a virtual phone: phones/8gen3.json (then --stack too)")
      ->capture_default_str();
  command.add_option("--stack", options.stack,
                     "The software on the phone, as measured for a paper: llm.npu, heterollm, ...");
  command.add_option("--npu-step", options.npu_step,
                     "On a phone, llm.npu up to a step of its ablation: naive, chunk, outlier or "
                     "out-of-order");
  command
      .add_option("--npu-prune", options.npu_prune,
                  "With it: percent of the blocks whose outliers are ignored")
      ->capture_default_str();
  command.add_flag("!--npu-plain-shapes", options.has_square_shapes,
                   "On a phone: rows as they come, not the fastest of equivalent shapes");
  command.add_flag("!--ordinary-handover", options.has_fast_handover,
                   "On a phone: the system's synchronisation in place of a flag to poll on");
}

}  // namespace

void EngineFlags::add_to(Command& command) {
  command_ = &command;
  add_model(command, "MODEL", options.model)->required();
  command.begin_group(kMachineGroup);
  add_machine(command, options);
  command.begin_group("Precision of prompts and cache");
  add_precision(command, *this);
  command.begin_group("Lanes");
  add_lanes(command, options);
  command.begin_group("Virtual phones");
  add_phones(command, options);
  command.end_group();
}

void EngineFlags::add_kept_plan(Command& command) {
  uses_kept_plan_ = true;
  command.begin_group(kMachineGroup);
  command.add_flag("!--no-plan", uses_kept_plan_,
                   "Without the plan that 'troika tune' has kept for this model here");
  command.end_group();
}

}  // namespace troika::cli
