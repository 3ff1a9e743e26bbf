#include "prepare/int8/outlier_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "model/linear_inputs.h"
#include "weights/content_key.h"

namespace troika::prepare {
namespace {

ShadowRows resident_rows(const Options& options) {
  return options.memory.has_side_files ? options.memory.shadow_rows : ShadowRows::kAll;
}

// Returns the side file's path, whose name tells the model of this machine and the weights' form.
std::string side_file_path(const gguf::File& file, uint64_t form_key) {
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::absolute(file.path(), failure);
  Fnv hash;
  hash.add(failure ? file.path() : whole.lexically_normal().string());
  hash.add(form_key);
  return fmt::format("{}/channels-{:016x}.bin", cache_folder(), hash.value());
}

// Returns a key of side files that says how weights become levels.
uint64_t weight_form_key(const plan::Int8Plan& int8) {
  Fnv hash;
  switch (int8.weight_scales) {
    case plan::WeightScales::kRow:
      return 0;
    case plan::WeightScales::kTensor:
      return 1;
    case plan::WeightScales::kInt4:
      hash.add(fmt::format("int4 {}", int8.weight_outliers));
  }
  return hash.value();
}

struct ChosenChannels {
  std::vector<model::LinearInput> known;        // inputs of products that have the int8 form
  std::vector<model::LinearInput> kept;         // those of them that keep their outliers
  std::vector<weights::ChannelChoice> choices;  // one for each that is kept
};

ChosenChannels choose_channels(const std::vector<model::LinearInput>& inputs,
                               const weights::Store& weights, const plan::Plan& plan,
                               const lanes::Int8Rules& rules, ShadowRows resident) {
  ChosenChannels chosen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const model::WeightId id = inputs[i].weights.front();
    const bool has_form = weights.int8_panels(id) != nullptr || weights.row_largest(id) != nullptr;
    if (!has_form) continue;
    chosen.known.push_back(inputs[i]);
    if (!rules[static_cast<size_t>(id)].takes_outliers()) continue;
    chosen.kept.push_back(inputs[i]);
    weights::ChannelChoice choice{inputs[i]};
    // Without a calibration nobody knows which channels are hot.
    choice.is_all = resident == ShadowRows::kAll ||
                    (resident == ShadowRows::kHot && !plan.int8.is_calibrated());
    if (resident == ShadowRows::kHot && !choice.is_all) {
      choice.hot = plan.int8.inputs[i].hot_channels;
    }
    chosen.choices.push_back(std::move(choice));
  }
  return chosen;
}

}  // namespace

bool takes_outliers_out(const plan::Plan& plan, plan::Int8Method method) {
  return plan.prefill == plan::Prefill::kInt8 &&
         (plan::has_shadow(method) || method == plan::Int8Method::kSplit);
}

OutlierChannels make_channels(const Options& options, const gguf::File& file,
                              const model::Blueprint& blueprint, const weights::Store& weights,
                              const plan::Plan& plan, const Int8Binding& int8,
                              const weights::Store::MatrixFunction& done) {
  if (!plan.places_shadow()) return {};
  if (!is_here(options)) {
    throw UsageError(
        "‹place› shadow is for lanes of this machine. On a phone ‹npu-step› outlier computes "
        "outliers on another processor.");
  }
  OutlierChannels made;
  if (!takes_outliers_out(plan, plan.int8.method)) {
    made.note =
        "prompts take no outliers out, so '‹place› shadow' has nothing to place; '‹int8› shadow' "
        "with the plan of a calibration does";
    return made;
  }
  const lanes::Int8Rules* rules = int8.rules();
  if (rules == nullptr) return {};
  const auto [known, kept, choices] = choose_channels(model::linear_inputs(blueprint), weights,
                                                      plan, *rules, resident_rows(options));
  if (choices.empty()) return {};
  if (std::all_of(choices.begin(), choices.end(), [](const auto& c) { return c.is_all; })) {
    made.channels =
        std::make_unique<weights::Channels>(weights, choices, plan.n_threads(), options.progress);
    return made;
  }
  const uint64_t form_key = weight_form_key(plan.int8);
  const weights::ChannelFileOptions how = {.path = side_file_path(file, form_key),
                                           .model_key = weights::content_key(file),
                                           .form_key = form_key,
                                           .n_threads = plan.n_threads(),
                                           .progress = options.progress,
                                           .done = done};
  made.side_file = std::make_unique<weights::ChannelFile>(weights, how, kept, known);
  const weights::ChannelFile& side_file = *made.side_file;
  if (side_file.is_new()) {
    const std::string why =
        side_file.problem().empty() ? "" : fmt::format(": the one there {}", side_file.problem());
    made.note = fmt::format("wrote {} ({:.1f} MB of weights by channel{})", side_file.path(),
                            1e-6 * static_cast<double>(side_file.bytes()), why);
  }
  made.channels = std::make_unique<weights::Channels>(weights, choices, side_file);
  return made;
}

size_t resident_channel_bytes(const Options& options, const model::Blueprint& blueprint,
                              const weights::Store& weights, const plan::Plan& plan) {
  plan::Int8Plan int8 = plan.int8;
  if (options.prompts.int8) int8.method = *options.prompts.int8;
  if (options.prompts.outlier_prune) int8.outlier_prune = *options.prompts.outlier_prune;
  if (!plan.places_shadow() || !takes_outliers_out(plan, int8.method)) return 0;
  const ShadowRows resident = resident_rows(options);
  if (resident == ShadowRows::kNone) return 0;
  const bool keeps_all_inputs = int8.method == plan::Int8Method::kSplit || !int8.is_calibrated();
  const std::vector<bool> shadowed = int8.shadowed();
  const std::vector<model::LinearInput> inputs = model::linear_inputs(blueprint);
  // A calibration of another model is refused where weights are bound. Memory is reckoned before.
  if (int8.is_calibrated() && int8.inputs.size() != inputs.size()) return 0;
  size_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!keeps_all_inputs && !shadowed[i]) continue;
    size_t n_rows = 0;
    for (const model::WeightId id : inputs[i].weights) {
      n_rows += static_cast<size_t>(weights.matrix(id).n_rows);
    }
    const bool is_all = resident == ShadowRows::kAll || !int8.is_calibrated();
    bytes += n_rows *
             (is_all ? static_cast<size_t>(inputs[i].width) : int8.inputs[i].hot_channels.size());
  }
  return bytes;
}

}  // namespace troika::prepare
