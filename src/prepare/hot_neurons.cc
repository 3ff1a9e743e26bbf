#include "prepare/hot_neurons.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes_text.h"
#include "base/error.h"
#include "prepare/layouts/weight_strips.h"
#include "prepare/side_files.h"
#include "prepare/streaming/page_reads.h"
#include "weights/neurons/hot_neurons.h"

namespace troika::prepare {
namespace {

std::vector<std::vector<uint32_t>> lists_of(const OpenedModel& model,
                                            std::span<const model::GatedFfn> ffns, int percent,
                                            std::span<const float> thresholds) {
  std::string problem;
  const std::optional<weights::NeuronHeat> heat =
      kept_heat(model.file, ffns, thresholds, model.weights, &problem);
  if (!heat) {
    throw UsageError(fmt::format(
        "‹neuron-hot›, or the plan, computes hot neurons apart, and {}. Run 'troika neurons' with "
        "this model first.",
        problem.empty() ? "nobody has counted which are hot" : problem));
  }
  return weights::hot_lists(ffns, percent, *heat, model.weights);
}

// Refuses blocks that are too small to have both hot neurons and others.
void check_sizes(std::span<const std::vector<uint32_t>> lists) {
  const bool is_any_empty =
      std::any_of(lists.begin(), lists.end(), [](const auto& list) { return list.empty(); });
  if (!is_any_empty) return;
  throw UsageError(
      "‹neuron-hot› computes at least 32 neurons of each block apart from the others, and this "
      "model has a block with no more than that. Leave it out.");
}

void refuse_experts(const model::Blueprint& blueprint) {
  if (!model::gated_ffns(blueprint).empty() || model::expert_ffns(blueprint).empty()) return;
  throw UsageError(
      "‹neuron-hot›, or the plan, computes hot neurons apart, which is for blocks that every token "
      "takes, and the neurons of this model are those of experts. Leave it out.");
}

}  // namespace

void check_hot(const plan::Plan& plan, const model::Blueprint& blueprint) {
  if (plan.ffn.hot.is_there()) refuse_experts(blueprint);
}

std::optional<plan::FfnHot> asked_hot(const Options& options, const OpenedModel& model,
                                      const plan::FfnPlan& begun) {
  if (!options.ffn.hot_percent || !is_here(options)) return {};
  if (*options.ffn.hot_percent == 0) return plan::FfnHot();
  if (options.ffn.form.value_or(begun.form) == plan::FfnForm::kByOutput) return {};  // is refused
  const std::vector<model::GatedFfn> ffns = model::gated_ffns(model.blueprint);
  refuse_experts(model.blueprint);
  if (ffns.empty()) return {};
  const auto lists = lists_of(model, ffns, *options.ffn.hot_percent, begun.thresholds);
  check_sizes(lists);
  return plan::FfnHot{*options.ffn.hot_percent, 0, weights::key_of(lists)};
}

std::string place_hot(const kernels::Table& kernels, const plan::Plan& plan,
                      std::span<const model::GatedFfn> ffns, bool is_mapped, OpenedModel* model) {
  weights::Store& weights = model->weights;
  const auto lists = lists_of(*model, ffns, plan.ffn.hot.percent, plan.ffn.thresholds);
  check_sizes(lists);
  if (weights::key_of(lists) != plan.ffn.hot.key) {
    throw Error(
        "Other neurons are hot by now than when the plan was made, because 'troika neurons' has "
        "counted anew. Make the plan again, or leave ‹plan› out.");
  }
  const int n_threads = plan.n_threads();
  // Pages of the map are given back block by block: all of them would be the whole model.
  const auto forget = [&](const weights::Matrix& matrix) {
    if (is_mapped) forget_mapped(model->file, matrix.data, matrix.bytes());
  };
  auto hot = std::make_unique<weights::HotNeurons>(model->blueprint, ffns, lists, weights,
                                                   n_threads, forget);
  const bool is_on_cores = !plan.lanes[static_cast<size_t>(plan.ffn.hot.lane)].is_device();
  if (is_on_cores && reads_strips(plan)) {
    hot->weights().place_in_strips(strip_matrices(hot->blueprint(), kernels, hot->weights()),
                                   n_threads);
  }
  std::string note = fmt::format("{} hot neurons are computed densely on lane {} ({} of them)",
                                 hot->n_neurons(), plan.ffn.hot.lane, bytes_text(hot->bytes()));
  weights.set_hot(std::move(hot));
  return note;
}

}  // namespace troika::prepare
