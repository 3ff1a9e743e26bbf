// troika pull: downloads a model of a hub into the cache, or a newer one in place of the one there.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/use/models.h"

namespace troika::cli {
namespace {

struct PullFlags {
  std::string name;
  bool json = false;
};

const char* state_of(const fetch::FoundModel& model) {
  if (model.n_downloaded == 0) return "current";
  return model.n_replaced == 0 ? "downloaded" : "replaced";
}

void print_model(const fetch::FoundModel& model) {
  const std::string state = state_of(model);
  std::string text = "downloaded and checked";
  if (state == "current") text = "here already, and the hub has no newer one";
  if (state == "replaced") text = "replaced: the hub had a newer one";
  const bool has_hashes = std::all_of(model.files.begin(), model.files.end(),
                                      [](const auto& file) { return !file.hash().empty(); });
  if (state == "downloaded" && !has_hashes) text = "downloaded; only its size was checked";
  if (state == "replaced" && !has_hashes) {
    text = "downloaded again: the hub knows no hash that could tell whether it has a newer one";
  }
  print(fmt::format("{}, {}: {}\n", model.label, bytes_text(model.bytes), text));
  for (const std::string& path : model.paths) print(path + "\n");
}

nlohmann::ordered_json to_json(const fetch::ModelName& name, const fetch::FoundModel& model) {
  nlohmann::ordered_json json = {{"model", name.text()},
                                 {"label", model.label},
                                 {"state", state_of(model)},
                                 {"path", model.paths.front()},
                                 {"bytes", model.bytes}};
  json["files"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < model.paths.size(); ++i) {
    nlohmann::ordered_json file = {{"path", model.paths[i]}, {"bytes", model.files[i].bytes}};
    file["sha256"] = model.files[i].sha256.empty() ? nlohmann::ordered_json()
                                                   : nlohmann::ordered_json(model.files[i].sha256);
    json["files"].push_back(file);
  }
  return json;
}

void pull(const PullFlags& flags) {
  const fetch::ModelName name = fetch::parse_model_name(flags.name);
  fetch::ModelsOptions options = models_options();
  fetch::FoundModel model;
  {
    Progress bar(name.text());
    options.hooks.progress = bar.function();
    model = fetch::pull(name, options);
  }
  flags.json ? print_json(to_json(name, model)) : print_model(model);
}

}  // namespace

void add_pull(Command& app) {
  Command* command =
      app.add_subcommand("pull", "Download a model by its name on Hugging Face", kUseGroup);
  command->examples({"troika pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0",
                     "troika run hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0 --chat -p \"Hello\""});
  command->footer(
      "Every command that takes a MODEL takes such a name too, and downloads what is missing; what "
      "is in the cache is used without a question to the network. 'troika pull' asks: it "
      "downloads, or replaces what has changed there, and checks what is here by its hash.\n"
      "QUANT is an element type, as the names of the repository's files end (Q8_0), or a file's "
      "name or path. Without it: Q4_K_M, else Q4_0, else the smallest of at least 4 bits.\n"
      "A download that breaks off goes on where it ended when the command is given again.\n"
      "HF_ENDPOINT names another hub, HF_TOKEN who you are where a model is not public;\n"
      "HF_HUB_OFFLINE=1 forbids to ask. Models lie in $XDG_CACHE_HOME/troika/models;\n"
      "'troika cache' lists and removes them (--remove-models: all).");
  auto flags = std::make_shared<PullFlags>();
  command->add_option("NAME", flags->name, "hf:ORG/REPO or hf:ORG/REPO:QUANT")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { pull(*flags); });
}

}  // namespace troika::cli
