#include "fetch/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/bytes_text.h"
#include "base/error.h"
#include "fetch/hub.h"
#include "gguf/split.h"

namespace troika::fetch {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const ModelName& name, const ModelsOptions& options) {
  return fmt::format("{}/{}", options.folder, name.repository());
}

// Returns the files that were downloaded whole: only these have a name that ends in ".gguf".
std::vector<HubFile> kept_files(const std::string& folder) {
  std::vector<HubFile> files;
  std::error_code failure;
  for (auto entry = fs::recursive_directory_iterator(folder, failure);
       !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code ignored;
    const std::string path = entry->path().lexically_relative(folder).string();
    if (!is_gguf_name(path) || !entry->is_regular_file(ignored)) continue;
    files.push_back({path, entry->file_size(ignored), ""});
  }
  return files;
}

struct Arrived {
  std::unique_ptr<PartFile> part;
  std::string target;
};

// Gives the files their final names. Old files are removed first, so that wherever this is
// interrupted, no new shard lies beside an old one.
void commit(const std::vector<Arrived>& arrived) {
  for (const Arrived& file : arrived) {
    std::error_code failure;
    if (arrived.size() > 1) fs::remove(file.target, failure);
    if (failure) {
      throw Error(fmt::format("{}: cannot be replaced by the newer one: {}.", file.target,
                              failure.message()));
    }
  }
  for (const Arrived& file : arrived) file.part->commit(file.target);
}

// Returns the path without what tells apart how a model is divided into files.
std::string undivided(const std::string& path) {
  const auto shard = gguf::parse_shard_name(path);
  return shard ? shard->stem : fs::path(path).replace_extension().string();
}

// Removes what is left of a model that the hub once divided into files otherwise: beside the new
// files it would be a second model of the same name.
void remove_former(const FoundModel& model, const Listing& listing, const std::string& folder,
                   const DownloadHooks& hooks) {
  for (const HubFile& old : kept_files(folder)) {
    const bool is_there = std::any_of(listing.files.begin(), listing.files.end(),
                                      [&](const HubFile& file) { return file.path == old.path; });
    if (is_there || undivided(old.path) != undivided(model.files.front().path)) continue;
    std::error_code failure;
    fs::remove(fs::path(folder) / old.path, failure);
    hooks.note(failure ? fmt::format("{}, which the hub has no more, cannot be removed: {}",
                                     old.path, failure.message())
                       : fmt::format("removed {}, in place of which the hub has {}", old.path,
                                     model.files.front().path));
  }
}

FoundModel found(const HubModel& model, const std::string& folder) {
  FoundModel result;
  result.label = model.label;
  result.files = model.files;
  result.bytes = model.bytes();
  for (const HubFile& file : model.files) result.paths.push_back(folder + "/" + file.path);
  return result;
}

FoundModel pull_with(Transport& transport, const ModelName& name, const ModelsOptions& options) {
  const Hub hub(transport, options.endpoint, options.token);
  const Listing listing = hub.list(name);
  const std::vector<HubModel> models = models_of(listing.files);
  const std::string folder = folder_of(name, options);
  FoundModel result =
      found(choose_model(models, name.quant, name.text(), listing.left_out), folder);
  check_room(result.files, result.paths);
  std::vector<Arrived> arrived;
  uint64_t bytes_before = 0;  // counts the bytes of earlier shards
  for (size_t i = 0; i < result.files.size(); ++i) {
    const HubFile& file = result.files[i];
    DownloadHooks hooks = options.hooks;
    hooks.progress = [&](uint64_t done, uint64_t) {
      options.hooks.progress(bytes_before + done, result.bytes);
    };
    const std::optional<FileStamp> seen = stamp_of(result.paths[i]);
    if (!seen || !is_same_file(result.paths[i], file, hooks.progress)) {
      hooks.note(fmt::format("downloading {}, {}{}", file.path, bytes_text(file.bytes),
                             seen ? ", in place of the one that is here" : ""));
      const auto ask = [&](uint64_t offset, const std::string& version, const HttpSink& sink) {
        return hub.get(name, file.path, offset, version, sink);
      };
      if (auto part = download(file, result.paths[i], seen, ask, hooks)) {
        arrived.push_back({std::move(part), result.paths[i]});
        result.n_replaced += seen ? 1 : 0;
      }
    }
    bytes_before += file.bytes;
  }
  result.n_downloaded = static_cast<int>(arrived.size());
  commit(arrived);
  for (const std::string& path : result.paths) remove_old_parts(path);
  remove_former(result, listing, folder, options.hooks);
  return result;
}

}  // namespace

FoundModel pull(const ModelName& name, const ModelsOptions& options) {
  return pull_with(*options.transport(), name, options);
}

FoundModel find_or_fetch(const ModelName& name, const ModelsOptions& options) {
  const std::string folder = folder_of(name, options);
  std::vector<HubModel> kept = models_of(kept_files(folder));
  std::erase_if(kept, [](const HubModel& model) { return !model.is_complete; });
  if (kept.empty()) return pull(name, options);
  std::string unclear;
  try {
    return found(choose_model(kept, name.quant, name.text()), folder);
  } catch (const Error& error) {
    // The model is not here, or the name is not clear: the hub decides.
    unclear = error.what();
  }
  const auto with_reason = [&](const Error& error) {
    return Error(fmt::format("{} As to what is here: {}", error.what(), unclear));
  };
  std::unique_ptr<Transport> transport;
  try {
    transport = options.transport();
  } catch (const Error& error) {
    throw with_reason(error);  // the network must not be asked, or cannot be
  }
  try {
    return pull_with(*transport, name, options);
  } catch (const HubOutOfReach& error) {
    throw with_reason(error);
  }
}

}  // namespace troika::fetch
