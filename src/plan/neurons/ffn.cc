#include "plan/neurons/ffn.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/plan.h"

namespace troika::plan {

const char* ffn_form_name(FfnForm form) {
  constexpr const char* kNames[] = {"by-output", "by-neuron", "every-neuron"};
  return kNames[static_cast<size_t>(form)];
}

FfnForm ffn_form_from_name(std::string_view name) {
  for (const FfnForm form : {FfnForm::kByOutput, FfnForm::kByNeuron, FfnForm::kEveryNeuron}) {
    if (name == ffn_form_name(form)) return form;
  }
  throw UsageError(fmt::format(
      "'{}' is no way to compute feed-forward blocks. Known are by-output (all neurons), by-neuron "
      "(those whose activation is not 0) and every-neuron (the sums of by-neuron with all of "
      "them).",
      name));
}

const char* ffn_gates_name(FfnGates gates) {
  return gates == FfnGates::kInMemory ? "memory" : "bundles";
}

FfnGates ffn_gates_from_name(std::string_view name) {
  for (const FfnGates gates : {FfnGates::kInMemory, FfnGates::kInBundles}) {
    if (name == ffn_gates_name(gates)) return gates;
  }
  throw UsageError(fmt::format("'{}' is no place for gates. There are memory and bundles.", name));
}

void check_ffn(const Plan& plan) {
  if (!plan.ffn.is_by_neuron()) return;
  const char* const name = ffn_form_name(plan.ffn.form);
  if (plan.ffn.predictor.is_there() && plan.ffn.form != FfnForm::kByNeuron) {
    throw UsageError(
        fmt::format("‹neuron-predictor› says which neurons may be live, and ‹ffn› {} computes all "
                    "of them. Use by-neuron, or leave one of them out.",
                    name));
  }
  if (plan.splits.at_activations) {
    throw UsageError(
        fmt::format("‹ffn› {} computes a feed-forward block as one, and ‹cut-at-activations› cuts "
                    "it. Leave one "
                    "of them out.",
                    name));
  }
  const FfnHot& hot = plan.ffn.hot;
  const auto n_lanes = static_cast<int>(plan.lanes.size());
  if (hot.is_there() && (hot.lane < 0 || hot.lane >= n_lanes)) {
    throw UsageError(fmt::format("Hot neurons are for lane {}, but the lanes are 0 to {}.",
                                 hot.lane, n_lanes - 1));
  }
  const auto is_device = [](const PlannedLane& lane) { return lane.is_device(); };
  if (std::all_of(plan.lanes.begin(), plan.lanes.end(), is_device)) {
    throw UsageError(fmt::format(
        "‹ffn› {} is computed on a lane of cores, and ‹lanes› has none. Name one there, "
        "with {} behind it for hot neurons only (‹neuron-hot›), or leave ‹ffn› out.",
        name, lane_text(plan.lanes.front())));
  }
  for (int i = 0; i < n_lanes; ++i) {
    const PlannedLane& lane = plan.lanes[static_cast<size_t>(i)];
    if (lane.kind == "host" || (hot.is_there() && hot.lane == i)) continue;
    throw UsageError(
        fmt::format("‹ffn› {} is for lanes of cores, and {} is none. Leave it out of ‹lanes›, or "
                    "let it compute the hot neurons (‹neuron-hot›).",
                    name, lane_text(lane)));
  }
}

}  // namespace troika::plan
