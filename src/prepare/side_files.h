// Where the side files about a model's neurons lie: in the folder of side files, named after the
// path of the model.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "model/gated_ffns.h"
#include "weights/neurons/heat.h"
#include "weights/store.h"

namespace troika::prepare {

// "bundles": FOLDER/bundles-0123456789abcdef.bin
std::string neuron_file_path(std::string_view kind, const gguf::File& file);

// How often each neuron fires, as `troika neurons` counted it; none: nobody has, or the model is
// another one since, and `note` says so.
std::optional<weights::NeuronHeat> kept_heat(const gguf::File& file,
                                             std::span<const model::GatedFfn> ffns,
                                             const weights::Store& weights, std::string* note);

}  // namespace troika::prepare
