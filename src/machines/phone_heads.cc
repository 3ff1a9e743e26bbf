#include "machines/phone_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace

std::vector<schedule::BlockHeads> draw_heads(const plan::Stack& stack,
                                             const model::Blueprint& blueprint, double share,
                                             const prepare::PhoneHeads& options) {
  const auto n_layers = static_cast<size_t>(blueprint.n_layers);
  const auto n_heads = static_cast<size_t>(blueprint.n_heads);
  std::vector<double> of_heads(n_layers * n_heads), of_layers(n_layers);
  for (size_t i = 0; i < of_heads.size(); ++i) {
    of_heads[i] = kUsualImportance * draw(kHeadImportance, stack.attention.importance_spread, i);
  }
  for (size_t i = 0; i < n_layers; ++i) {
    of_layers[i] = kUsualImportance * draw(kLayerImportance, stack.attention.importance_spread, i);
  }
  std::vector<double> shares(of_heads.size(), share);
  if (!options.has_equal_shares) shares = attention::head_shares(of_heads, of_layers, share);
  const std::vector<attention::ScalePair> buckets =
      attention::buckets_around(attention::ScalePair(), options.n_buckets);
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

void apply_heads(const prepare::Options& options, const model::Blueprint& blueprint,
                 PhoneSetup* setup) {
  if (options.prompts.attention != plan::AttentionForm::kQuery) return;
  using lanes::Processor;
  plan::Plan& plan = setup->plan;
  std::vector<Processor> processors = options.phone.heads.lanes;
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
    if (lane[i] < 0 || (i > 0 && processors[i] == Processor::kNpu)) {
      throw UsageError(fmt::format(
          "‹attention-lanes›: {} cannot be the lane of {}. The estimate may run on every lane of "
          "the phone, selection and exact attention on its CPU or its GPU.",
          lanes::processor_name(processors[i]),
          i == 0   ? "the estimate"
          : i == 1 ? "the selection"
                   : "exact attention"));
    }
  }
  setup->heads.estimate_lane = lane[0];
  setup->heads.select_lane = lane[1];
  setup->heads.stage = options.phone.heads.stage;
  setup->heads.block = options.phone.heads.block;
  setup->heads.heads = draw_heads(setup->model.stack(), blueprint,
                                  options.prompts.attention_share.value_or(kUsualPercent) / 100.0,
                                  options.phone.heads);
  // The rule for attention stands before all others, and decoding attends on the same lane.
  plan.placements.insert(plan.placements.begin(), {"attention", 0, lane[2]});
}

}  // namespace troika::machines
