#include "machines/plan_neurons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/units.h"
#include "schedule/runner.h"

namespace troika::machines {
namespace {

constexpr int kTrialBlocks = 2;
constexpr int kTokensBefore = 3, kTrialTokens = 6;
constexpr int kMostCandidates = 6;
constexpr int kTrialContext = 256;  // counts positions that attention sees in a trial

// Returns the time of a step in each block; the first blocks stand for all.
double block_us(const lanes::CostModel& model, const lanes::PhoneOptions& options,
                const lanes::NeuronShape& shape, const model::Blueprint& blueprint,
                const weights::Store& weights, const plan::Plan& plan, int n_sequences) {
  const int n_blocks = std::min(kTrialBlocks, shape.n_layers);
  lanes::NeuronShape few = shape;
  few.n_layers = n_blocks;
  plan::Plan with = plan;
  // A cache has room for one neuron at least, also where the share of some blocks is less.
  with.neurons->cache_bytes = std::max(
      shape.neuron_bytes(), plan.neurons->cache_bytes / static_cast<uint64_t>(shape.n_layers) *
                                static_cast<uint64_t>(n_blocks));
  with.step_shapes = {n_sequences};
  with.prompt_shapes = {plan.chunk()};
  PhoneNeurons neurons(model, few, with);
  lanes::VirtualPhone phone(model, options, nullptr);
  schedule::GraphOptions how;
  how.has_values = false;
  how.ffn = &neurons.tasks();
  const schedule::Graphs graphs(blueprint, with, phone, weights, how);
  const schedule::TaskList& list = graphs.body(plan::Phase::kStep, n_sequences);
  const auto end = std::find_if(list.tasks.begin(), list.tasks.end(),
                                [&](const schedule::Task& task) { return task.block >= n_blocks; });
  const schedule::Pass pass = schedule::pass_of({list.tasks.begin(), end});
  const std::vector<cache::Slot> slots(kTrialContext);
  const std::vector<cache::VisibleSlots> visible(
      static_cast<size_t>(n_sequences),
      {std::span(slots).first(kTrialContext - 1), std::span(slots).last(1)});
  lanes::Run run;
  run.n_tokens = n_sequences;
  run.visible = visible;
  schedule::Runner runner(phone);
  schedule::RunOptions run_options;
  run_options.policy = &neurons.policy();
  double start_us = 0.0;
  for (int i = 0; i < kTokensBefore + kTrialTokens; ++i) {
    if (i == kTokensBefore) start_us = phone.clock().now_us();
    runner.run(pass, run, run_options);
  }
  return (phone.clock().now_us() - start_us) / kTrialTokens / n_blocks;
}

// Returns how many neurons the flash can read in a row while attention runs (P §5).
int streamed_neurons(const lanes::CostModel& model, const lanes::NeuronShape& shape) {
  const double attention_weights = static_cast<double>(shape.model_bytes) / shape.n_layers -
                                   static_cast<double>(shape.n_experts) * shape.n_neurons *
                                       shape.n_matrices * shape.width * shape.weight_bytes;
  const double us =
      std::max(0.0, attention_weights) / (model.read_gb_s(lanes::Processor::kNpu) * 1e3);
  return static_cast<int>(us * model.flash_gb_s() * 1e3 / shape.bundle_bytes());
}

// Returns what a system computes while it reads.
plan::NeuronPipeline pipeline_of(plan::NeuronSystem system) {
  using plan::NeuronPipeline;
  using plan::NeuronSystem;
  switch (system) {
    case NeuronSystem::kMap:
    case NeuronSystem::kFlash:
    case NeuronSystem::kPowerInfer:
      return NeuronPipeline::kNone;
    case NeuronSystem::kPlain:
    case NeuronSystem::kBundle:
    case NeuronSystem::kCache:
      return NeuronPipeline::kMatrix;
    case NeuronSystem::kPipeline:
    case NeuronSystem::kXpu:
      break;
  }
  return NeuronPipeline::kCluster;
}

// Refuses a share of the FFN that has no room for a neuron where some must be kept.
void check_room(const plan::NeuronPlan& plan, double ffn_share, uint64_t neuron_bytes) {
  if (plan.is_dense() || plan.cache_bytes >= neuron_bytes) return;
  throw UsageError(
      fmt::format("‹ffn-share› {} leaves {} for neurons, and one takes {}. Name a larger share.",
                  ffn_share, bytes_text(plan.cache_bytes), bytes_text(neuron_bytes)));
}

// Chooses whether a bundle is one request or two, by what is faster on the flash (K30).
void choose_reads(const lanes::NeuronShape& shape, const lanes::CostModel& model,
                  std::optional<bool> reads_twice, plan::NeuronPlan* plan, NeuronChoiceMade* made) {
  plan::NeuronPlan whole = *plan;
  whole.cache_bytes = shape.cacheable_bytes();
  const lanes::NeuronWork trial(model, shape, whole);
  const int first = shape.row_read_bytes(), second = shape.bundle_bytes() - first;
  made->read_once_us = trial.read_us(shape.bundle_bytes());
  made->read_twice_us =
      trial.read_us(first) + plan->statistics.continue_share * trial.read_us(second);
  const bool is_in_two = reads_twice.value_or(made->read_twice_us < made->read_once_us);
  if (!is_in_two || second <= 0) return;
  plan->first_read_bytes = first;
  plan->second_read_bytes = second;
}

}  // namespace

plan::NeuronPlan neuron_budget(const prepare::Options& options, const lanes::NeuronShape& shape,
                               const lanes::CostModel& model, uint64_t kv_bytes,
                               NeuronChoiceMade* made) {
  const plan::NeuronChoice& choice = options.phone.neurons;
  const auto& constants = model.stack().neurons;
  plan::NeuronPlan plan;
  plan.system = choice.system.value_or(plan::NeuronSystem::kXpu);
  plan.statistics = {choice.live_share.value_or(constants.live_share), constants.power,
                     constants.most, choice.overlap.value_or(constants.overlap),
                     constants.continue_share};
  plan.segment = static_cast<int>(constants.segment);
  plan.pipeline = choice.pipeline.value_or(pipeline_of(plan.system));
  const uint64_t ffn_bytes = shape.cacheable_bytes() + shape.scale_bytes();
  plan.other_bytes = shape.model_bytes - std::min(shape.model_bytes, ffn_bytes) + kv_bytes +
                     static_cast<uint64_t>(constants.runtime_gb * kBytesPerGb);
  plan.predictor_bytes = plan.is_dense() ? 0 : shape.predictor_bytes();
  plan.scale_bytes = shape.scale_bytes();
  const uint64_t fixed = plan.other_bytes + plan.predictor_bytes + plan.scale_bytes;
  if (options.memory.limit_bytes > 0) {
    plan.budget_bytes = options.memory.limit_bytes;
    const uint64_t least = fixed + (plan.is_dense() ? 1 : shape.neuron_bytes());
    if (plan.budget_bytes < least) {
      throw Error(fmt::format(
          "‹memory› {} has no room for neurons: weights that are no FFN's, keys and values and the "
          "program take {}, predictors {} and scales of the FFN {}. Allow more than {}.",
          bytes_text(plan.budget_bytes), bytes_text(plan.other_bytes),
          bytes_text(plan.predictor_bytes), bytes_text(plan.scale_bytes), bytes_text(least)));
    }
    plan.cache_bytes = std::min(plan.budget_bytes - fixed, shape.cacheable_bytes());
  } else {
    const double ffn_share = choice.ffn_share.value_or(1.0);
    plan.cache_bytes =
        static_cast<uint64_t>(ffn_share * static_cast<double>(shape.cacheable_bytes()));
    check_room(plan, ffn_share, shape.neuron_bytes());
    plan.budget_bytes = fixed + plan.cache_bytes;
  }
  plan.first_read_bytes = plan.has_bundles() ? shape.bundle_bytes() : shape.row_read_bytes();
  plan.second_read_bytes = plan.has_bundles() ? 0 : shape.row_read_bytes();
  if (made != nullptr && plan.has_bundles()) {
    choose_reads(shape, model, choice.reads_twice, &plan, made);
  }
  return plan;
}

void choose_hot(const lanes::CostModel& model, const lanes::PhoneOptions& phone,
                const lanes::NeuronShape& shape, const model::Blueprint& blueprint,
                const weights::Store& weights, plan::Plan* plan, NeuronChoiceMade* made) {
  plan::NeuronPlan& neurons = *plan->neurons;
  if (neurons.system != plan::NeuronSystem::kXpu || neuron_lanes(*plan).npu < 0) return;
  const int segment = neurons.segment;
  const double in_memory = static_cast<double>(neurons.cache_bytes) /
                           static_cast<double>(shape.neuron_bytes()) / shape.n_groups();
  // The bytes that the NPU may hold beside attention (N9).
  const double ffn_bytes = static_cast<double>(shape.cacheable_bytes() + shape.scale_bytes());
  const double room = std::max(0.0, model.phone().npu.memory_limit_gb * kBytesPerGb -
                                        (static_cast<double>(shape.model_bytes) - ffn_bytes));
  const double on_npu = room / ffn_bytes * shape.n_neurons;
  const int n_clusters = static_cast<int>(std::min(
      {in_memory / segment, on_npu / segment, static_cast<double>(shape.n_neurons / segment)}));
  const int step = std::max(1, (n_clusters + kMostCandidates - 1) / kMostCandidates);
  const bool holds_all = neurons.cache_bytes >= shape.cacheable_bytes();
  const int streamed = shape.n_experts == 1 && !holds_all ? streamed_neurons(model, shape) : 0;
  std::vector<plan::HotNeurons> best;
  for (const int n : plan->step_shapes) {
    const NeuronCandidate* least = nullptr;
    const size_t first = made->candidates.size();
    for (int clusters = 0; clusters <= n_clusters; clusters += step) {
      for (const int more : {0, streamed}) {
        NeuronCandidate candidate{n, {n, clusters * segment, more}, 0.0};
        if (candidate.hot.n_hot + more > shape.n_neurons) continue;
        neurons.hot = {candidate.hot};
        candidate.block_us = block_us(model, phone, shape, blueprint, weights, *plan, n);
        made->candidates.push_back(candidate);
        if (streamed == 0) break;
      }
    }
    for (size_t i = first; i < made->candidates.size(); ++i) {
      const NeuronCandidate& candidate = made->candidates[i];
      if (least == nullptr || candidate.block_us < least->block_us) least = &candidate;
    }
    best.push_back(least->hot);
  }
  neurons.hot = best;
}

}  // namespace troika::machines
