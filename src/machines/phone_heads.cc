#include "machines/phone_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "attention/choose/head_ratios.h"
#include "attention/choose/scale_buckets.h"
#include "base/error.h"
#include "base/random.h"

namespace troika::machines {
namespace {

constexpr double kUsualPercent = 20.0;  // as in shadowAttn 5.2
// Is the importance of a usual head and of a usual layer: their product is a little below the clamp
// of eq. (3).
constexpr double kUsualImportance = 0.02;

enum Drawn : uint64_t { kScaleOfQueries, kScaleOfKeys, kHeadImportance, kLayerImportance };

// Returns the exponential of a normal number with this deviation, always the same for the same
// place.
double draw(Drawn what, double spread, size_t index) {
  const double u = 1.0 - random_unit(2 * what, index), v = random_unit(2 * what + 1, index);
  const double normal = std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  return std::exp(spread * normal);
}

int lane_of(const plan::Plan& plan, lanes::Processor processor) {
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].kind == lanes::processor_name(processor)) return static_cast<int>(lane);
  }
  return -1;
}

// Are places in the list of lanes that people give.
enum HeadPart : size_t { kEstimate, kSelection, kExact };

[[noreturn]] void refuse_lane(std::string_view processor, size_t part) {
  throw UsageError(fmt::format(
      "‹attention-lanes›: {} cannot be the lane of {}. The estimate may run on every lane of "
      "the phone, selection and exact attention on its CPU or its GPU.",
      processor,
      part == kEstimate    ? "the estimate"
      : part == kSelection ? "the selection"
                           : "exact attention"));
}

}  // namespace

std::vector<schedule::BlockHeads> draw_heads(const plan::Stack& stack,
                                             const model::Blueprint& blueprint,
                                             const plan::HeadPlan& heads) {
  const auto n_layers = static_cast<size_t>(blueprint.n_layers);
  const auto n_heads = static_cast<size_t>(blueprint.n_heads);
  std::vector<double> of_heads(n_layers * n_heads), of_layers(n_layers);
  for (size_t i = 0; i < of_heads.size(); ++i) {
    of_heads[i] = kUsualImportance * draw(kHeadImportance, stack.attention.importance_spread, i);
  }
  for (size_t i = 0; i < n_layers; ++i) {
    of_layers[i] = kUsualImportance * draw(kLayerImportance, stack.attention.importance_spread, i);
  }
  std::vector<double> shares(of_heads.size(), heads.share);
  if (!heads.has_equal_shares) {
    shares = attention::head_shares(of_heads, of_layers, heads.share);
  }
  const std::vector<attention::ScalePair> buckets =
      attention::buckets_around(attention::ScalePair(), heads.n_buckets);
  std::vector<schedule::BlockHeads> blocks(n_layers);
  for (size_t i = 0; i < shares.size(); ++i) {
    const double spread = stack.attention.scale_spread;
    const attention::ScalePair scales = {static_cast<float>(draw(kScaleOfQueries, spread, i)),
                                         static_cast<float>(draw(kScaleOfKeys, spread, i))};
    schedule::BlockHeads& block = blocks[i / n_heads];
    block.shares.push_back(shares[i]);
    block.buckets.push_back(static_cast<int>(attention::nearest_bucket(buckets, scales)));
  }
  return blocks;
}

void plan_heads(const prepare::Options& options, plan::Plan* to) {
  if (options.prompts.attention != plan::AttentionForm::kQuery) return;
  using lanes::Processor;
  plan::Plan& plan = *to;
  const prepare::PhoneHeads& asked = options.phone.heads;
  std::vector<Processor> processors = asked.lanes;
  if (processors.empty()) {
    const bool has_npu = lane_of(plan, Processor::kNpu) >= 0;
    const Processor floats =
        lane_of(plan, Processor::kCpu) >= 0 ? Processor::kCpu : Processor::kGpu;
    processors = {has_npu ? Processor::kNpu : floats, floats, floats};
  }
  TROIKA_ASSERT(processors.size() == 3);
  int lane[3];
  for (size_t i = 0; i < 3; ++i) {
    lane[i] = lane_of(plan, processors[i]);
    if (lane[i] < 0 || (i != kEstimate && processors[i] == Processor::kNpu)) {
      refuse_lane(lanes::processor_name(processors[i]), i);
    }
  }
  plan.heads = plan::HeadPlan{lane[0],
                              lane[1],
                              asked.stage,
                              asked.n_buckets,
                              asked.block,
                              options.prompts.attention_share.value_or(kUsualPercent) / 100.0,
                              asked.has_equal_shares};
  // The rule for attention stands before all others, and decoding attends on the same lane.
  plan.placements.insert(plan.placements.begin(), {"attention", 0, lane[2]});
}

namespace {

// Says whether the exact part of any block runs on that lane in a prompt of any shape.
bool attends_on(const plan::Plan& plan, int lane, int n_blocks) {
  for (const plan::Shape shape : plan.body_shapes()) {
    if (shape.phase != plan::Phase::kPrompt) continue;
    for (int block = 0; block < n_blocks; ++block) {
      if (plan.lane_of("attention", shape, block) == lane) return true;
    }
  }
  return false;
}

}  // namespace

void apply_heads(const model::Blueprint& blueprint, bool has_values, PhoneSetup* setup) {
  const plan::Plan& plan = setup->plan;
  if (!plan.heads) return;
  if (has_values) {
    throw UsageError(
        "The plan has heads of sparse attention, and on a phone these take time and compute "
        "nothing: use it with 'bench'.");
  }
  const plan::HeadPlan& heads = *plan.heads;
  const int npu = lane_of(plan, lanes::Processor::kNpu);
  if (npu >= 0 && heads.select_lane == npu) refuse_lane("npu", kSelection);
  if (npu >= 0 && attends_on(plan, npu, blueprint.n_layers)) refuse_lane("npu", kExact);
  setup->heads.estimate_lane = heads.estimate_lane;
  setup->heads.select_lane = heads.select_lane;
  setup->heads.stage = heads.stage;
  setup->heads.block = heads.block;
  setup->heads.heads = draw_heads(setup->model.stack(), blueprint, heads);
}

}  // namespace troika::machines
