#include "plan/phones/neuron_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/option_names.h"

namespace troika::plan {
namespace {

void check_share(const std::optional<double>& share, const char* option) {
  if (!share || (*share >= 0.0 && *share <= 1.0)) return;
  throw UsageError(fmt::format("‹{}› {} makes no sense; it is a share, 0 to 1.", option, *share));
}

}  // namespace

void check_neuron_choice(const NeuronChoice& choice, bool has_limit, bool has_values) {
  if (has_limit && choice.ffn_share) {
    throw UsageError("‹memory› says how much of the FFN is in memory; leave ‹ffn-share› out.");
  }
  if ((has_limit || choice.is_wanted()) && has_values) {
    throw UsageError("‹memory› and ‹neurons› of a phone are for modelled time: bench and plan.");
  }
  check_share(choice.ffn_share, "ffn-share");
  check_share(choice.live_share, "live");
  if (choice.live_share && *choice.live_share == 0.0) {
    throw UsageError("‹live› 0 makes no sense: neurons that never fire need no plan. Name more.");
  }
  check_share(choice.overlap, "overlap");
}

const char* neuron_system_name(NeuronSystem system) {
  return kNeuronSystems[static_cast<size_t>(system)];
}

NeuronSystem neuron_system_from_name(std::string_view name) {
  return static_cast<NeuronSystem>(index_of_name(kNeuronSystems, name, "neurons"));
}

NeuronPipeline neuron_pipeline_from_name(std::string_view name) {
  return static_cast<NeuronPipeline>(index_of_name(kNeuronPipelines, name, "phone-pipeline"));
}

const HotNeurons& NeuronPlan::hot_for(int n_sequences) const {
  static const HotNeurons kNone;
  if (hot.empty()) return kNone;
  const auto at = std::find_if(hot.begin(), hot.end(), [&](const HotNeurons& entry) {
    return entry.n_sequences >= n_sequences;
  });
  return at == hot.end() ? hot.back() : *at;
}

}  // namespace troika::plan
