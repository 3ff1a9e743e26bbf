// troika cache: lists and removes the side files that this program keeps between runs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

namespace fs = std::filesystem;

struct CacheFlags {
  std::vector<std::string> remove;
  bool remove_all = false;     // leaves what cannot be made again, or only at a cost
  bool remove_models = false;  // removes models and unfinished downloads
  bool json = false;
};

struct SideFile {
  std::string name;
  std::string kind;
  uint64_t bytes = 0;
};

constexpr std::string_view kModels = "models/";
constexpr std::string_view kHistory = "history";

// Returns what stands before the key: "profile" of "profile-0123456789abcdef.json".
std::string kind_of(const std::string& name) {
  if (name.starts_with(kModels)) return name.ends_with(".part") ? "download" : "model";
  const size_t end = name.find('-');
  return end == std::string::npos ? "other" : name.substr(0, end);
}

// Adds the files that lie in `from`, named from `folder` on. Throws Error.
template <typename Iterator>
void add_files(const std::string& from, const std::string& folder, std::vector<SideFile>* files) {
  std::error_code failure;
  for (auto entry = Iterator(from, failure); !failure && entry != Iterator();
       entry.increment(failure)) {
    std::error_code vanished;
    if (!entry->is_regular_file(vanished)) continue;
    const std::string name = entry->path().lexically_relative(folder).string();
    const uintmax_t bytes = entry->file_size(vanished);
    if (!vanished) files->push_back({name, kind_of(name), bytes});
  }
  if (!failure) return;
  throw Error(fmt::format("{}: the folder cannot be read: {}.", from, failure.message()));
}

std::vector<SideFile> list_files(const std::string& folder) {
  std::vector<SideFile> files;
  std::error_code ignored;
  if (fs::status(folder, ignored).type() == fs::file_type::not_found) return files;
  // Models lie in folders, everything else beside these folders. Where the folder of models is a
  // link to another disk, it is followed because iteration begins there.
  add_files<fs::directory_iterator>(folder, folder, &files);
  const std::string models = (fs::path(folder) / kModels).string();
  if (fs::is_directory(models, ignored)) {
    add_files<fs::recursive_directory_iterator>(models, folder, &files);
  }
  std::sort(files.begin(), files.end(),
            [](const SideFile& a, const SideFile& b) { return a.name < b.name; });
  return files;
}

void remove_file(const std::string& folder, const SideFile& file) {
  std::error_code failure;
  const bool was_there = fs::remove(fs::path(folder) / file.name, failure);
  if (failure) {
    throw Error(fmt::format("{}/{}: the file cannot be removed: {}.", folder, file.name,
                            failure.message()));
  }
  // A model's folders go with its last file; a link to a folder could go while it is full.
  for (fs::path parent = fs::path(file.name).parent_path(); !parent.empty();
       parent = parent.parent_path()) {
    if (fs::is_symlink(folder / parent, failure) || !fs::remove(folder / parent, failure)) break;
  }
  if (was_there) {
    note(fmt::format("removed {} ({})\n", file.name, bytes_text(file.bytes)));
  } else {
    note(fmt::format("{} was gone already\n", file.name));
  }
}

void remove_chosen(const CacheFlags& flags, const std::string& folder,
                   const std::vector<SideFile>& files) {
  // All names are looked up first, so that a wrong one removes nothing.
  std::vector<SideFile> chosen;
  for (const SideFile& file : files) {
    const bool is_model = file.name.starts_with(kModels);
    // The answers of a history cannot be made again.
    const bool is_meant =
        is_model ? flags.remove_models : file.kind != kHistory && flags.remove_all;
    if (is_meant) chosen.push_back(file);
  }
  for (const std::string& name : flags.remove) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const SideFile& file) { return file.name == name; });
    if (found == files.end()) {
      throw UsageError(fmt::format(
          "There is no side file '{}' in {}; 'troika cache' lists those there are.", name, folder));
    }
    chosen.push_back(*found);
  }
  nlohmann::ordered_json removed = nlohmann::ordered_json::array();
  for (const SideFile& file : chosen) {
    remove_file(folder, file);
    removed.push_back(file.name);
  }
  if (chosen.empty()) note(fmt::format("nothing to remove in {}\n", folder));
  if (flags.json) print_json({{"folder", folder}, {"removed", removed}});
}

void print_files(const CacheFlags& flags, const std::string& folder,
                 const std::vector<SideFile>& files) {
  uint64_t total = 0;
  for (const SideFile& file : files) total += file.bytes;
  if (flags.json) {
    nlohmann::ordered_json json;
    json["folder"] = folder;
    json["files"] = nlohmann::ordered_json::array();
    for (const SideFile& file : files) {
      json["files"].push_back({{"name", file.name}, {"kind", file.kind}, {"bytes", file.bytes}});
    }
    json["bytes"] = total;
    print_json(json);
    return;
  }
  for (const SideFile& file : files) {
    print(fmt::format("{:<44} {:<10} {:>10}\n", file.name, file.kind, bytes_text(file.bytes)));
  }
  print(fmt::format("{} {} in {}, {}\n", files.size(), files.size() == 1 ? "file" : "files", folder,
                    bytes_text(total)));
}

void cache(const CacheFlags& flags) {
  const std::string folder = cache_folder();
  const std::vector<SideFile> files = list_files(folder);
  if (flags.remove_all || flags.remove_models || !flags.remove.empty()) {
    remove_chosen(flags, folder, files);
  } else {
    print_files(flags, folder, files);
  }
}

}  // namespace

void add_cache(Command& app) {
  Command* command =
      app.add_subcommand("cache", "List or remove the files kept between runs", kUseGroup);
  command->examples({"troika cache", "troika cache --remove profile-0123456789abcdef.json"});
  command->footer(
      "Files lie in $XDG_CACHE_HOME/troika, by default ~/.cache/troika. What is missing is made or "
      "downloaded again, but for histories (--history): they hold earlier answers.");
  auto flags = std::make_shared<CacheFlags>();
  Option* remove =
      command->add_option("--remove", flags->remove, "Remove the file of this name (repeatable)");
  command
      ->add_flag("--remove-all", flags->remove_all, "Remove all of them but models and histories")
      ->excludes(remove);
  command
      ->add_flag("--remove-models", flags->remove_models,
                 "Remove all models, also those that are only partly here")
      ->excludes(remove);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { cache(*flags); });
}

}  // namespace troika::cli
