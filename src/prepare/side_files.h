// Finds the side files about a model's neurons: FOLDER/KIND-KEY.bin, by a key of the model's path.
// Bundles have a key of their form too (bundle_paths.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "model/gated_ffns.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "weights/neurons/heat.h"
#include "weights/neurons/predictor.h"
#include "weights/store.h"

namespace troika::prepare {

// Returns "FOLDER/heat-0123456789abcdef.bin" for the kind "heat".
std::string neuron_file_path(std::string_view kind, const gguf::File& file);

// Returns the key of what is learned of neurons. It tells models apart, and thresholds: below which
// magnitude a neuron counts as dead decides which ones fire. Without thresholds it is the model's.
uint64_t neuron_key(const gguf::File& file, std::span<const float> thresholds);

// Returns how often each neuron fires, as `troika neurons` counted it with these thresholds. None:
// nobody has counted, or model or thresholds have changed since, and `note` says so.
std::optional<weights::NeuronHeat> kept_heat(const gguf::File& file,
                                             std::span<const model::GatedFfn> ffns,
                                             std::span<const float> thresholds,
                                             const weights::Store& weights, std::string* note);

// Refuses a predictor, and hot neurons, that are asked for or that the plan has, where no side file
// may be read. Throws UsageError.
void check_side_files(const Options& options, const plan::FfnPlan& ffn);

// Returns what is known of the predictor that is asked for, for a plan with these thresholds; none:
// no plan that is made can have one. Throws Error where there is no such predictor.
std::optional<plan::FfnPredictor> asked_predictor(const Options& options, const gguf::File& file,
                                                  std::span<const float> thresholds);
// Says in the plan which predictor is used, if one is asked for or the plan has one. Throws Error
// where there is no such predictor, or another than the plan's; UsageError where it makes no sense.
void choose_predictor(const Options& options, const gguf::File& file, plan::Plan* plan);
// Loads the plan's predictor; null: it has none. Throws Error where it does not fit the blocks.
std::unique_ptr<weights::NeuronPredictor> load_predictor(const Options& options,
                                                         const plan::Plan& plan,
                                                         const gguf::File& file,
                                                         std::span<const model::GatedFfn> ffns,
                                                         const weights::Store& weights);

}  // namespace troika::prepare
