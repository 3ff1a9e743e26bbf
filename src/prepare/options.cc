#include "prepare/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/option_names.h"
#include "plan/attention/words.h"

namespace troika::prepare {
namespace {

constexpr int kMostThreads = 1024;
// Smaller chunks would read all weights for too few tokens.
constexpr int kLeastChunk = 32;
constexpr size_t kMostPinSteps = 64;  // as many as a step has tokens at most

constexpr const char* kLoads[] = {"auto", "map", "copy"};
constexpr const char* kExpertReads[] = {"guessed", "by-route", "in-order"};
constexpr const char* kShadowRows[] = {"hot", "all", "none"};
constexpr const char* kLayouts[] = {"blocks", "both", "switch"};

void check_percent(int percent, const char* option) {
  if (percent >= 0 && percent <= 100) return;
  throw UsageError(
      fmt::format("‹{}› {} makes no sense; it is a percentage, 0 to 100.", option, percent));
}

void check_prompts(const PromptChoice& prompts) {
  if (prompts.int8 && prompts.prefill && *prompts.prefill != plan::Prefill::kInt8) {
    throw UsageError(fmt::format("‹int8› is for prompts in int8, but ‹prefill› asks for {}.",
                                 plan::prefill_name(*prompts.prefill)));
  }
  if (prompts.outlier_prune) check_percent(*prompts.outlier_prune, "outlier-prune");
  if (const double most = plan::Int8Plan::kMostWeightOutliers;
      prompts.weight_outliers &&
      !(*prompts.weight_outliers >= 0 && *prompts.weight_outliers <= most)) {
    throw UsageError(
        fmt::format("‹weight-outliers› {} makes no sense; it is a percentage, 0 to {}, of the "
                    "weights of each row.",
                    *prompts.weight_outliers, most));
  }
  if (prompts.chunks_in_flight < 0 || prompts.chunks_in_flight > plan::kMostChunksInFlight) {
    throw UsageError(fmt::format("‹in-flight› {} makes no sense; use 1 to {} chunks.",
                                 prompts.chunks_in_flight, plan::kMostChunksInFlight));
  }
  if (prompts.chunk != 0 && (prompts.chunk < kLeastChunk || prompts.chunk > plan::kMostShapeRows)) {
    throw UsageError(fmt::format("‹chunk› {} makes no sense; use {} to {} tokens.", prompts.chunk,
                                 kLeastChunk, plan::kMostShapeRows));
  }
}

void check_ffn(const Options& options) {
  if (options.ffn.pinned_percent.size() > kMostPinSteps) {
    throw UsageError(
        fmt::format("‹neuron-pins› has {} numbers, for steps of one token and more; "
                    "use {} at most.",
                    options.ffn.pinned_percent.size(), kMostPinSteps));
  }
  for (const int pinned : options.ffn.pinned_percent) {
    if (pinned >= 0 && pinned <= 100) continue;
    throw UsageError(fmt::format("‹neuron-pins› {} makes no sense; it is a percentage.", pinned));
  }
  if (options.ffn.reads_hottest_ahead && !options.ffn.reads_ahead) {
    throw UsageError(
        "‹neuron-ahead› reads neurons ahead, and ‹no-neuron-ahead› forbids it. Leave one of them "
        "out.");
  }
  if (is_here(options)) (void)neuron_reads(options.ffn, {});
  const int hot = options.ffn.hot_percent.value_or(0);
  if (hot < 0 || hot > plan::kMostHotPercent) {
    throw UsageError(
        fmt::format("‹neuron-hot› {} makes no sense; it is a percentage of the neurons, up to {}.",
                    hot, plan::kMostHotPercent));
  }
  if (!options.ffn.form || *options.ffn.form == plan::FfnForm::kByOutput) return;
  const char* const name = plan::ffn_form_name(*options.ffn.form);
  if (!is_here(options)) {
    throw UsageError(fmt::format(
        "‹ffn› {} is for this machine; a virtual phone has no such lane. Leave it out.", name));
  }
  if (options.memory.layouts == Layouts::kSwitch) {
    throw UsageError(
        fmt::format("‹ffn› {} needs the rows of the file, and with ‹layouts› switch they come and "
                    "go. Leave one "
                    "of them out.",
                    name));
  }
}

void check_memory(const MemoryChoice& memory) {
  if (memory.context < 0) {
    throw UsageError(
        fmt::format("‹context› {} makes no sense; it is a number of tokens.", memory.context));
  }
  if (memory.layouts && memory.packed_bytes > 0) {
    throw UsageError(
        "‹layouts› says which copies of the weights there are, and so does ‹packed›; leave one of "
        "them out.");
  }
}

// Refuses what phones do not know of sparse attention: each query chooses, from the first token on.
void check_phone_attention(const Options& options) {
  const PhoneHeads& heads = options.phone.heads;
  plan::check_bucket_count(heads.n_buckets);
  if (heads.block < 1 || heads.block > plan::HeadPlan::kMostBlock) {
    throw UsageError(
        fmt::format("‹attention-block› {} makes no sense; 1 to {} positions are chosen together.",
                    heads.block, plan::HeadPlan::kMostBlock));
  }
  if (!heads.lanes.empty() && heads.lanes.size() != 3) {
    throw UsageError(
        "‹attention-lanes› names three processors: of the estimate, of the selection and of the "
        "exact part, as in npu,cpu,cpu.");
  }
  const plan::AttentionForm form = options.prompts.attention.value_or(plan::AttentionForm());
  if (form == plan::AttentionForm()) return;
  if (form != plan::AttentionForm::kQuery) {
    throw UsageError(fmt::format(
        "‹attention› {} is for this machine. On a phone there are {} and {}; use one of them, or "
        "leave it out.",
        plan::attention_form_name(form), plan::attention_form_name(plan::AttentionForm()),
        plan::attention_form_name(plan::AttentionForm::kQuery)));
  }
  if (options.phone.has_values) {
    throw UsageError(
        "‹attention› query on a phone takes time and computes nothing: use it with 'bench'.");
  }
  if (options.prompts.attention_from) {
    throw UsageError(
        "On a phone sparse attention begins with the first token: leave "
        "‹attention-from› out.");
  }
  const double percent = options.prompts.attention_share.value_or(20.0);
  if (!(percent > 0.0 && percent <= 100.0)) {
    throw UsageError(fmt::format(
        "‹attention-share› {} makes no sense; it is a percentage above 0, up to 100.", percent));
  }
}

void check_phone(const Options& options) {
  check_phone_attention(options);
  check_percent(options.phone.npu_prune, "npu-prune");
  if (options.phone.queue_depth < 1) {
    throw UsageError(
        fmt::format("‹device-queue› {} makes no sense: a device takes 1 task or more at a time.",
                    options.phone.queue_depth));
  }
  plan::check_neuron_choice(options.phone.neurons, options.memory.limit_bytes > 0,
                            options.phone.has_values);
  if (options.memory.layouts && *options.memory.layouts != Layouts::kSwitch) {
    throw UsageError(fmt::format(
        "‹layouts› {} is for this machine. On a virtual phone there is 'switch': graphs "
        "of prompts and of steps, which change while a prompt runs.",
        layouts_name(*options.memory.layouts)));
  }
  const bool is_in_order =
      !options.prompts.order || *options.prompts.order == plan::Order::kInOrder;
  if (options.memory.layouts && !is_in_order) {
    throw UsageError(
        "‹layouts› switch goes by blocks, and with several chunks in flight blocks have no order: "
        "use ‹order› in-order.");
  }
}

// Refuses beside a stage of the ablation what only the last one has (P13). LLMFlash has a predictor
// too.
void refuse_beside_stage(const FfnChoice& ffn, plan::NeuronSystem stage) {
  if (stage == plan::NeuronSystem::kXpu) return;
  const auto refuse_if = [stage](bool is_given, const char* what, const char* option) {
    if (!is_given) return;
    throw UsageError(
        fmt::format("‹neurons› {} has no {}. Use ‹neurons› powerinfer-2, or leave ‹{}› out.",
                    plan::neuron_system_name(stage), what, option));
  };
  const bool may_predict = stage == plan::NeuronSystem::kFlash;
  refuse_if(ffn.has_predictor && !may_predict, "predictor", "neuron-predictor");
  refuse_if(std::ranges::any_of(ffn.pinned_percent, [](int pinned) { return pinned > 0; }), "pins",
            "neuron-pins");
  refuse_if(ffn.hot_percent.value_or(0) > 0, "hot neurons", "neuron-hot");
}

// Lets nothing be computed before all neurons of a layer are there, whatever a plan says.
void go_by_matrices(FfnChoice* ffn) {
  ffn->pipeline = ReadPipeline::kMatrix;
  ffn->reads = ffn->reads.value_or(BundleReads::kOnce);
  ffn->reads_ahead = ffn->reads_hottest_ahead = false;
}

}  // namespace

void check_lanes(const LaneChoice& lanes) {
  if (lanes.n_threads < 0 || lanes.n_threads > kMostThreads) {
    throw UsageError(fmt::format("‹threads› {} makes no sense; use 1 to {}, or 0 for all cores.",
                                 lanes.n_threads, kMostThreads));
  }
  if (!lanes.cores.empty() && lanes.n_threads > 0) {
    throw UsageError("‹lanes› already says how many threads there are; leave ‹threads› out.");
  }
}

NeuronReads neuron_reads(const FfnChoice& ffn, const plan::Plan& plan) {
  const plan::StreamedNeurons planned = plan.streamed_neurons.value_or(plan::StreamedNeurons());
  const NeuronReads found = {ffn.pipeline.value_or(planned.pipeline),
                             ffn.reads.value_or(planned.reads)};
  if (found.pipeline == ReadPipeline::kCluster || found.reads == BundleReads::kOnce) return found;
  if (ffn.pipeline && ffn.reads) {
    throw UsageError(
        "‹neuron-reads› twice computes gates while other neurons are read, and by matrices nothing "
        "is computed before all are read (‹neuron-pipeline› matrix, or a stage of ‹neurons› that "
        "goes so). Leave one of them out.");
  }
  if (ffn.pipeline) {
    throw UsageError(
        "The plan reads neurons twice, to compute gates while others are read, and by matrices "
        "nothing is computed before all are read. Use ‹neuron-reads› once too, or leave "
        "‹neuron-pipeline› matrix out.");
  }
  throw UsageError(
      "‹neuron-reads› twice computes gates while other neurons are read, and the plan goes by "
      "matrices, where nothing is computed before all are read. Use ‹neuron-pipeline› cluster too, "
      "or leave ‹neuron-reads› out.");
}

void take_neuron_stage(Options* options) {
  if (!options->phone.neurons.system) return;
  const plan::NeuronSystem stage = *std::exchange(options->phone.neurons.system, std::nullopt);
  FfnChoice& ffn = options->ffn;
  ffn.form = ffn.form.value_or(plan::FfnForm::kByNeuron);
  refuse_beside_stage(ffn, stage);
  ffn.keeps_last_steps = false;  // these are systems of the paper, which go by who was used last
  // Hot neurons of a plan would be another class of bits.
  if (stage != plan::NeuronSystem::kXpu) ffn.hot_percent = ffn.hot_percent.value_or(0);
  switch (stage) {
    case plan::NeuronSystem::kFlash:
      if (ffn.form == plan::FfnForm::kByOutput) return;
      ffn.is_predictor_of_stage = !ffn.has_predictor;
      ffn.has_predictor = true;
      ffn.gates = ffn.gates.value_or(plan::FfnGates::kInBundles);
      go_by_matrices(&ffn);
      ffn.pinned_percent = {0};
      return;
    case plan::NeuronSystem::kBundle:
      ffn.keeps_neurons = false;
      [[fallthrough]];
    case plan::NeuronSystem::kCache:
      go_by_matrices(&ffn);
      ffn.pinned_percent = {0};
      return;
    case plan::NeuronSystem::kPipeline:
      ffn.pipeline = ReadPipeline::kCluster;
      ffn.pinned_percent = {0};
      return;
    case plan::NeuronSystem::kXpu:
      return;
    default:
      throw UsageError(fmt::format(
          "‹neurons› {} is for a virtual phone. On this machine there are bundle, cache, "
          "pipeline, powerinfer-2 and llmflash; a mapped file is ‹load› map without them.",
          plan::neuron_system_name(stage)));
  }
}

void check_options(const Options& options) {
  check_lanes(options.lanes);
  check_prompts(options.prompts);
  check_memory(options.memory);
  check_ffn(options);
  if (!is_here(options)) check_phone(options);
}

tensor::Type kv_type_from_name(std::string_view name) {
  const std::optional<tensor::Type> type = tensor::type_from_name(name);
  if (type == tensor::Type::kF32 || type == tensor::Type::kF16 || type == tensor::Type::kQ8_0) {
    return *type;
  }
  throw UsageError(
      fmt::format("'{}' is no type for keys and values. Known are f32, f16 and q8_0.", name));
}

ExpertReads expert_reads_from_name(std::string_view name) {
  return static_cast<ExpertReads>(index_of_name(kExpertReads, name, "expert-reads"));
}

Load load_from_name(std::string_view name) {
  return static_cast<Load>(index_of_name(kLoads, name, "load"));
}

ShadowRows shadow_rows_from_name(std::string_view name) {
  return static_cast<ShadowRows>(index_of_name(kShadowRows, name, "shadow-rows"));
}

Layouts layouts_from_name(std::string_view name) {
  return static_cast<Layouts>(index_of_name(kLayouts, name, "layouts"));
}

const char* layouts_name(Layouts layouts) { return kLayouts[static_cast<size_t>(layouts)]; }

NpuStage npu_stage_from_name(std::string_view name) {
  return static_cast<NpuStage>(index_of_name(plan::kNpuStages, name, "npu-step"));
}

}  // namespace troika::prepare
