// Finds models by name: in the folder of downloaded models, or on a hub.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fetch/download.h"
#include "fetch/http.h"
#include "fetch/name.h"

namespace troika::fetch {

struct ModelsOptions {
  std::string folder;  // models lie in FOLDER/ORG/REPO/, arranged as in their repositories
  std::string endpoint = "https://huggingface.co";
  std::string token;
  // Makes the transport that asks the network; called only if the network must be asked. Throws
  // Error where that is forbidden or impossible.
  std::function<std::unique_ptr<Transport>()> transport;
  DownloadHooks hooks;
};

struct FoundModel {
  std::string label;               // such as "Q4_K_M"
  std::vector<std::string> paths;  // the model's files here; the first one is the one to open
  std::vector<HubFile> files;      // the same files, as the hub describes them
  uint64_t bytes = 0;
  int n_downloaded = 0;  // counts files that were downloaded now
  int n_replaced = 0;    // counts those of them that replaced an older file
};

// Returns the model from the folder, without asking the network; if it is not there, from the hub.
FoundModel find_or_fetch(const ModelName& name, const ModelsOptions& options);

// Asks the hub, downloads what is missing here, and replaces what is different there, also where
// the hub now has other files of the same model: one in place of shards, or more or fewer shards.
FoundModel pull(const ModelName& name, const ModelsOptions& options);

}  // namespace troika::fetch
