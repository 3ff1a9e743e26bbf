#include "cli/use/models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/cache_folder.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/output.h"
#include "fetch/curl.h"

namespace troika::cli {
namespace {

// Returns a variable of the environment; empty where it is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string model_path(const std::string& model) {
  if (!fetch::is_model_name(model)) return model;
  const fetch::ModelName name = fetch::parse_model_name(model);
  fetch::ModelsOptions options = models_options();
  Progress bar(name.text());
  options.hooks.progress = bar.function();
  const fetch::FoundModel found = fetch::find_or_fetch(name, options);
  // A name without a type may mean several files, so the one that is here is told.
  if (name.quant.empty() && found.n_downloaded == 0) {
    note(fmt::format("note: {} is {} here\n", name.text(),
                     std::filesystem::path(found.paths.front()).filename().string()));
  }
  return found.paths.front();
}

Option* add_model(Command& command, const std::string& names, std::string& model,
                  const std::string& help) {
  command.before([&model] { model = model_path(model); });
  return command.add_option(names, model, help);
}

Option* add_models(Command& command, const std::string& names, std::vector<std::string>& models,
                   const std::string& help) {
  command.before([&models] {
    for (std::string& model : models) model = model_path(model);
  });
  return command.add_option(names, models, help);
}

fetch::ModelsOptions models_options() {
  fetch::ModelsOptions options;
  options.folder = cache_folder() + "/models";
  if (const std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    options.endpoint = endpoint;
  }
  options.token = environment("HF_TOKEN");
  options.transport = []() -> std::unique_ptr<fetch::Transport> {
    if (const std::string offline = environment("HF_HUB_OFFLINE");
        !offline.empty() && offline != "0") {
      throw Error(
          "This has to ask the network, which HF_HUB_OFFLINE forbids. Unset it; 'troika cache' "
          "shows which models are here.");
    }
    return fetch::make_curl_transport();
  };
  // On a terminal a progress bar may stand where the sentence goes.
  const std::string begin = isatty(STDERR_FILENO) == 1 ? "\r\033[Knote: " : "note: ";
  options.hooks.note = [begin](const std::string& sentence) { note(begin + sentence + "\n"); };
  return options;
}

}  // namespace troika::cli
