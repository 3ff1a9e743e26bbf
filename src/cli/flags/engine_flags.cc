// Adds the options of every command that runs a model, in the groups in which --help shows them.
#include "cli/flags/engine_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/flags/head_flags.h"
#include "cli/flags/idle_flags.h"
#include "cli/flags/neuron_flags.h"
#include "cli/flags/phone_flags.h"
#include "cli/use/models.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_setup.h"

namespace troika::cli {
namespace {

// Stands in --help where the options of phones are not listed.
constexpr const char* kPhonesElsewhere =
    "Virtual phones: --machine and --stack compute in the modelled time of a phone; 'troika bench "
    "--help' lists all of their options.";

// Is the group of options that --help leaves out.
constexpr const char* kPhonesRefused = "";

using plan::int8_method_from_name;
using prepare::layouts_from_name;
using prepare::load_from_name;
using prepare::shadow_rows_from_name;

void add_machine(Command& command, prepare::Options& options) {
  command.add_option("-t,--threads", options.lanes.n_threads,
                     "Threads (default, or 0: all usable cores)");
  command.add_option(
      "-c,--context", options.memory.context,
      "Tokens of context (default, or 0: what model and memory allow, at most 8192)");
  add_kv(command, options.memory.kv_type);
  command
      .add_option("--memory", options.memory.limit_bytes,
                  "What the program may keep in memory, to a megabyte or two: 1900M, 2G (in "
                  "1024s). A context that was not asked for is shortened, and blocks of weights "
                  "that do not fit are read from the disk while others compute. auto: of what is "
                  "free, half bounds what is copied and cached (default)")
      ->with_byte_units_or_auto();
  command
      .add_text(
          "--load", [&](const auto& text) { options.memory.load = load_from_name(text); },
          "Where weights lie: map (in the pages of the file, in its order), copy (in "
          "memory, in huge pages, 16 rows side by side, which several tokens read much "
          "faster), auto (copy if half of the free memory will do; with less than the "
          "weights take, some of them stay and the others are read for each pass)")
      ->shows_default("auto");
  command
      .add_text(
          "--expert-reads",
          [&](const auto& text) {
            options.memory.expert_reads = prepare::expert_reads_from_name(text);
          },
          "Where memory has no room for all weights of a mixture of experts: read those that a "
          "router asks for (by-route), and also ahead those that the next block's router may "
          "(guessed), or whole blocks (in-order)")
      ->shows_default("by-route");
  command.add_flag("!--no-cache", options.memory.has_side_files,
                   "Neither use nor keep side files: with '--place shadow' all weights of "
                   "outliers stay in memory");
  command
      .add_option("--plan", options.plan.file,
                  "Run as this plan says (see 'troika plan'); it sets threads, lanes, "
                  "placements, context, --kv, --activations, --prefill, --chunk and --attention" +
                      command.on_phones(", and on a phone the stage of llm.npu"))
      ->names_file();
  add_activations(command, options.activations);
  add_kernels(command, options.kernels);
  command.add_option("--pre", options.model.pre_tokenizer,
                     "Use this pre-tokenizer instead of the one the file names");
}

// Adds how prompts in int8 treat activations and weights.
void add_int8(Command& command, prepare::PromptChoice& prompts) {
  command.add_text(
      "--int8", [&](const auto& text) { prompts.int8 = int8_method_from_name(text); },
      "Prompts in int8 by this method: token (a scale for each token), static (one "
      "for each tensor), token-shadow and shadow (the same, outliers in float "
      "beside), smooth, llm.int8 or group; replaces the method of --plan");
  command.add_text(
      "--int8-weights",
      [&](const auto& text) { prompts.weight_scales = plan::weight_scales_from_name(text); },
      "Scales of int8 weights: row (one for each row), tensor (one for all of it) or int4 (one for "
      "each row, whose weights then have 4 bits, outliers 8)");
  command.add_option("--weight-outliers", prompts.weight_outliers,
                     "With --int8-weights int4: the percent of each row's weights that are "
                     "outliers (default: 1)");
  command.add_option("--outlier-prune", prompts.outlier_prune,
                     "Percent of the products, the least important, whose outliers are ignored "
                     "(default: as the plan says, else 85)");
}

void add_prompt_attention(Command& command, prepare::PromptChoice& prompts) {
  command
      .add_text(
          "--attention",
          [&](const auto& text) {
            prompts.attention.reset();
            if (text != "auto") prompts.attention = plan::attention_form_from_name(text);
          },
          "What tokens of long prompts attend to: full (all positions), sparse (those that "
          "weigh much, by an estimate in int8 that 64 tokens share), query (those that each query "
          "needs, as shadowAttn has it), or auto: sparse where 'troika tune' measured that little "
          "is lost, else full; block and int8 are there to compare; generation attends to all")
      ->shows_default("auto");
  command.add_option("--attention-above", prompts.attention_above,
                     "With --attention sparse: keep the positions that weigh more than X times the "
                     "mean (default: as 'troika tune' found, else 2.5)");
  command.add_option("--attention-share", prompts.attention_share,
                     "With --attention query, block or sparse: each head keeps X percent of the "
                     "positions, those that weigh most (default: as 'troika tune' found for each, "
                     "else 20; sparse goes by their weight)");
  command.add_option("--attention-from", prompts.attention_from,
                     "With --attention query, block or sparse: tokens before position N attend to "
                     "all (default: 1024)");
}

void add_prompts(Command& command, prepare::Options& options) {
  add_prefill(command, options.prompts.prefill,
              "How prompts are computed: f32 (exact), bf16, f16 (on OpenCL devices only), q8 "
              "(products as in generation, attention in bf16), int8 (fastest; a model's outlying "
              "activations may suffer), "
              "same (as generation), or auto: as 'troika tune' found, else q8 or bf16, the faster "
              "one here");
  command.add_option("--chunk", options.prompts.chunk,
                     "Tokens of a prompt that go together (default: the plan's)");
  add_prompt_attention(command, options.prompts);
  add_int8(command, options.prompts);
  command.add_flag(
      "--strict-npu", options.lanes.is_strict_npu,
      "Matrix lanes and the estimate of --attention query use fixed scales only; sparse "
      "and int8 attention are refused");
  command
      .add_option("--packed", options.memory.packed_bytes,
                  "Most bytes of packed copies of weights, which spare int8 prompts the unpacking "
                  "(default: none)")
      ->with_byte_units();
  command.add_text(
      "--layouts", [&](const auto& text) { options.memory.layouts = layouts_from_name(text); },
      "Layouts of the weights for int8 prompts and for generation: blocks (those "
      "of the file for both), both (packed copies of all beside them) or switch "
      "(one copy, which changes its layout while the prompt is computed)" +
          command.on_phones("; on a phone switch: graphs for chunks and for steps change") +
          " (default: as --packed says)");
}

void add_lane_limits(Command& command, EngineFlags& flags) {
  command.add_option("--lane-memory", flags.lane_limits,
                     "LANE=BYTES, as in 1=2G: a lane may run with no more weights than this; what "
                     "does not fit goes to another lane (repeatable; default: no limit" +
                         command.on_phones(", and of a phone's NPU what its file says") + ")");
  command.add_option("--lane-busy", flags.lane_caps,
                     "LANE=PERCENT, as in 1=50: a lane rests behind each task, so that it is busy "
                     "for no more of the time than this and the screen gets the rest (repeatable; "
                     "default: 100)");
}

void add_lanes(Command& command, EngineFlags& flags) {
  prepare::Options& options = flags.options;
  command
      .add_option(
          "--lanes", flags.lanes,
          "Lanes, with ; between them. A lane is a group of cores (\"0,1\" is one lane, \"0;1\" "
          "are two), or KIND:DEVICE@CORE with the core of its driver's thread: opencl:0@1 for "
          "OpenCL device 0, openvino:CPU@1 for OpenVINO's device CPU (\"0;opencl:0@1\"); @CORE "
          "may be left out" +
              command.on_phones(". Of a phone its processors: \"cpu;npu\""))
      ->check(not_empty());
  command.add_option(
      "--place", flags.placements,
      "SUBGRAPH=LANE or SUBGRAPH@TOKENS=LANE, TOKENS the least number of them, step or "
      "prompt: where embed, norm, qkv, attention, out, ffn, activation, down or head "
      "run (repeatable; default: lane 0); shadow: the lane of int8 prompts' outliers, "
      "at the same time as the products they belong to");
  command.add_option(
      "--cut", flags.cuts,
      "SUBGRAPH.OP@TOKENS=rows:LANE:N,LANE:N: divide the rows of a weight between "
      "lanes in this proportion, as in ffn.ffn_down@2=rows:0:60,1:40; without .OP "
      "all products; TOKENS may be a range 2-64, step or prompt; tokens:0:256,1:44 "
      "divides the tokens, attention=heads:0:1,1:1 the heads (repeatable)" +
          command.on_phones(
              "; auto: on a phone those of least time (here 'plan --choose' finds them); margin: "
              "as auto, but prompts of odd lengths by what is left over the next shorter graphs"));
  command.add_option(
      "--length", flags.lengths,
      "LANE:TOKENS,...: divide prompts of as many tokens as these together between lanes, as "
      "in 0:512,0:32,1:56 for 600 (repeatable)");
  command.add_flag("!--no-cuts", options.lanes.has_cuts,
                   "Leave out the cuts and lengths that the plan has");
  add_lane_limits(command, flags);
  command.add_flag("--fast-handover", options.lanes.has_fast_handover,
                   "On this machine with several lanes: a lane that waits sleeps for as long as it "
                   "expects to, then stays awake until its task comes");
  command.add_text(
      "--order", [&](const auto& text) { options.prompts.order = plan::order_from_name(text); },
      "Chunks of a prompt on several lanes: in-order, lock-step (two at a time) or "
      "out-of-order (default: the plan's, out-of-order)");
  command.add_option("--in-flight", options.prompts.chunks_in_flight,
                     "Chunks that several lanes work on at once, each with buffers of its own "
                     "(default: the plan's, 4" +
                         command.on_phones("; of a phone 8") + ")");
  command.add_flag("--cut-at-norms", options.lanes.splits.at_norms,
                   "Norms, and the projection behind attention, are subgraphs that can be placed");
  command.add_flag("--cut-at-activations", options.lanes.splits.at_activations,
                   "The activation of the feed-forward part, and the product behind it (down), are "
                   "subgraphs that can be placed");
  command
      .add_text(
          "--shadow-rows",
          [&](const auto& text) { options.memory.shadow_rows = shadow_rows_from_name(text); },
          "With '--place shadow', which channels' weights stay in memory: hot (those that "
          "calibration found; a disk lane reads the others from a side file), all or none")
      ->shows_default("hot");
}

// Reads "1=2G".
plan::LaneLimit lane_limit_from_text(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const char* const end = text.data() + equals;
  plan::LaneLimit limit;
  const auto lane = std::from_chars(text.data(), end, limit.lane);
  const std::optional<uint64_t> bytes =
      equals == text.size() ? std::nullopt : bytes_from_text(text.substr(equals + 1));
  if (lane.ec != std::errc() || lane.ptr != end || !bytes || limit.lane < 0) {
    throw UsageError(
        fmt::format("--lane-memory '{}' is not understood. Write LANE=BYTES, as in 1=2G.", text));
  }
  limit.bytes = *bytes;
  return limit;
}

plan::LaneCap lane_cap_from_text(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const char* const middle = text.data() + equals;
  const char* const end = text.data() + text.size();
  plan::LaneCap cap;
  const auto lane = std::from_chars(text.data(), middle, cap.lane);
  const char* const behind = equals == text.size() ? end : middle + 1;
  const auto percent = std::from_chars(behind, end, cap.busy_percent);
  if (lane.ec != std::errc() || lane.ptr != middle || percent.ec != std::errc() ||
      percent.ptr != end) {
    throw UsageError(
        fmt::format("--lane-busy '{}' is not understood. Write LANE=PERCENT, as in 1=50.", text));
  }
  return cap;
}

}  // namespace

Option* add_prefill(Command& command, std::optional<plan::Prefill>& prefill,
                    const std::string& help) {
  const auto take = [&prefill](const std::string& text) {
    prefill.reset();
    if (text != "auto") prefill = plan::prefill_from_name(text);
  };
  return command.add_text("--prefill", take, help)->shows_default("auto");
}

Option* add_activations(Command& command, plan::Activations& activations) {
  const auto take = [&](const std::string& text) {
    activations = plan::activations_from_name(text);
  };
  return command
      .add_text("--activations", take,
                "How activations meet block-quantised weights: q8 (fast) or f32 (exact)")
      ->shows_default("q8");
}

Option* add_kv(Command& command, tensor::Type& type) {
  const auto take = [&](const std::string& text) { type = prepare::kv_type_from_name(text); };
  return command.add_text("--kv", take, "Type of cached keys and values: f32, f16 or q8_0")
      ->shows_default("f16");
}

Option* add_cores(Command& command, std::vector<plan::PlannedLane>& lanes,
                  const std::string& help) {
  const auto take = [&](const std::string& text) {
    lanes = plan::lanes_from_text(text, usable_core_numbers());
  };
  return command.add_text("--lanes", take, help);
}

Option* add_kernels(Command& command, std::string& name) {
  return command.add_option("--kernels", name,
                            "The fastest kernels allowed: a name that 'troika --kernels list' "
                            "prints (default: the fastest)");
}

void EngineFlags::add_to(Command& command, PhoneHelp phones) {
  command_ = &command;
  if (phones == PhoneHelp::kNone) command.leave_phones_out();
  add_model(command, "MODEL", options.model.file)->required();
  command.begin_group(kMachineGroup);
  add_machine(command, options);
  command.begin_group(kPromptGroup);
  add_prompts(command, options);
  command.begin_group(kNeuronGroup);
  add_neuron_flags(command, options);
  command.begin_group(kLaneGroup);
  add_lanes(command, *this);
  add_heads(command, options);
  command.begin_group(phones == PhoneHelp::kListed      ? kPhoneGroup
                      : phones == PhoneHelp::kElsewhere ? kPhonesElsewhere
                                                        : kPhonesRefused);
  add_phones(command, *this);
  command.end_group();
}

void EngineFlags::add_kept_plan(Command& command) {
  uses_kept_plan_ = true;
  command.begin_group(kMachineGroup);
  command.add_flag("!--no-plan", uses_kept_plan_,
                   "Do not follow the plan that 'troika tune' has kept for this model here");
  command.end_group();
}

bool EngineFlags::is_given(const std::string& name) const {
  return command_ != nullptr && command_->is_given(name);
}

prepare::Options EngineFlags::checked() const {
  refuse_idle_flags(*this);
  prepare::Options checked = options;
  if (prepare::is_here(checked)) prepare::take_neuron_stage(&checked);
  if (!prepare::is_here(checked)) {
    if (!lanes.empty()) checked.phone.processors = lanes::processors_from_text(lanes);
    checked.phone.heads.n_buckets =
        checked.prompts.attention_buckets.value_or(checked.phone.heads.n_buckets);
  } else if (!lanes.empty()) {
    checked.lanes.cores = plan::lanes_from_text(lanes, usable_core_numbers());
  }
  for (const std::string& text : placements) {
    checked.lanes.placements.push_back(plan::placement_from_text(text));
  }
  for (const std::string& text : cuts) {
    if (text == kCutAuto || text == kCutMargin) {
      checked.lanes.solves_cuts = true;
      checked.lanes.divides_by_margin = text == kCutMargin;
    } else {
      checked.lanes.cuts.push_back(plan::cut_from_text(text));
    }
  }
  for (const std::string& text : lengths) {
    checked.lanes.lengths.push_back(plan::length_from_text(text));
  }
  for (const std::string& text : constants) {
    checked.phone.constants.push_back(plan::constant_from_text(text));
  }
  for (const std::string& text : lane_limits) {
    checked.lanes.limits.push_back(lane_limit_from_text(text));
  }
  for (const std::string& text : lane_caps) {
    checked.lanes.caps.push_back(lane_cap_from_text(text));
  }
  return checked;
}

std::vector<std::string> files_read(const prepare::Options& options,
                                    std::vector<std::string> more) {
  more.insert(more.end(), {options.model.file, options.plan.file, options.phone.file});
  for (const std::string& stack : {options.phone.stack, options.phone.prompt_stack}) {
    if (!stack.empty()) more.push_back(machines::stack_path(options, stack));
  }
  return more;
}

std::vector<std::string> files_read_for_plan(const prepare::Options& options,
                                             std::vector<std::string> more) {
  prepare::Options others = options;
  others.plan.file.clear();
  return files_read(others, std::move(more));
}

}  // namespace troika::cli
