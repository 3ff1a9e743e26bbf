// Models by name: found in the folder of those that were downloaded, or fetched from a hub.
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
  std::string folder;  // models lie in FOLDER/ORG/REPO/, as their repositories have them
  std::string endpoint = "https://huggingface.co";
  std::string token;
  // Makes what asks the network; called only where it must be asked.
  std::function<std::unique_ptr<Transport>()> transport;
  DownloadHooks hooks;
};

struct FoundModel {
  std::string label;               // "Q4_K_M"
  std::vector<std::string> paths;  // its files here; the first is the one to open
  std::vector<HubFile> files;      // the same as the hub describes them
  uint64_t bytes = 0;
  int n_downloaded = 0;  // of its files, now
  int n_replaced = 0;    // of those, files whose place an older one had
};

// The model from the folder, without a question to the network; else from the hub.
FoundModel find_or_fetch(const ModelName& name, const ModelsOptions& options);

// Asks the hub, downloads what is missing here, and replaces what is different there.
FoundModel pull(const ModelName& name, const ModelsOptions& options);

}  // namespace troika::fetch
