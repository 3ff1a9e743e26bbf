#include "machines/heads_here.h"

namespace troika::machines {

schedule::HeadPipeline heads_here(const plan::Plan& plan, const model::Blueprint& blueprint) {
  const plan::PromptAttention& attention = plan.attention;
  schedule::HeadPipeline pipeline;
  if (!attention.has_head_lanes()) return pipeline;
  pipeline.estimate_lane = attention.head_lanes[0];
  pipeline.select_lane = attention.head_lanes[1];
  pipeline.stage = attention.head_stage;
  pipeline.stores_apart = true;
  const bool is_static = attention.n_buckets > 0;
  std::vector<attention::ScalePair> buckets;
  if (is_static) buckets = plan::scale_buckets_of(attention);
  for (int layer = 0; layer < blueprint.n_layers; ++layer) {
    const plan::LayerAttention of_layer =
        plan::attention_of_layer(attention, layer, blueprint.n_heads, 0);
    schedule::BlockHeads& block = pipeline.heads.emplace_back();
    for (int head = 0; head < blueprint.n_heads; ++head) {
      block.shares.push_back(of_layer.share_of(head));
      const auto index = static_cast<size_t>(layer) * static_cast<size_t>(blueprint.n_heads) +
                         static_cast<size_t>(head);
      const size_t bucket =
          is_static ? attention::nearest_bucket(buckets, plan::scales_of(attention, index)) : 0;
      block.buckets.push_back(static_cast<int>(bucket));
    }
  }
  return pipeline;
}

bool orders_heads(const plan::Plan& plan) {
  return plan.attention.has_head_lanes() &&
         plan.attention.head_stage == plan::HeadStage::kOrdered &&
         plan.order != plan::Order::kLockStep && plan.lanes.size() > 1;
}

}  // namespace troika::machines
