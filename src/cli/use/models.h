// Finds the models that commands take: a path, or a name on a hub that becomes one.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "fetch/models.h"

namespace troika::cli {

// Adds an argument or option for a model. Where hf:ORG/REPO[:QUANT] is given, `model` holds the
// path of its file when the command's callback runs; the file is downloaded then if the cache does
// not have it.
Option* add_model(
    Command& command, const std::string& names, std::string& model,
    const std::string& help = "A GGUF file, or hf:ORG/REPO[:QUANT] (see 'troika pull')");
Option* add_models(Command& command, const std::string& names, std::vector<std::string>& models,
                   const std::string& help);

// Returns the path of a model's file, which is downloaded for hf:ORG/REPO[:QUANT]; other texts are
// paths already.
std::string model_path(const std::string& model);

// Reads the environment: the folder of models in the cache, HF_ENDPOINT, HF_TOKEN.
fetch::ModelsOptions models_options();

}  // namespace troika::cli
