#include "convert/source_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/os_error.h"
#include "convert/config.h"

namespace troika::convert {
namespace {

constexpr uint64_t kMostIndexBytes = uint64_t{32} << 20;
constexpr size_t kMostFiles = 400;
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr std::string_view kWhole = "model.safetensors";

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Returns, for each tensor, the name of the file in which it lies.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json json = read_json(path, kMostIndexBytes);
  const Json* map = member(json, "weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    throw Error(fmt::format("{}: it has no 'weight_map'; download it again.", path));
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    // Only a plain name is allowed: what leads out of the folder does not belong to it, and what
    // steers a terminal does not belong in a sentence.
    const bool has_control = std::any_of(name.begin(), name.end(),
                                         [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (name.empty() || name.find('/') != std::string::npos || name[0] == '.' || has_control) {
      throw Error(fmt::format(
          "{}: tensor {} is to lie in {}, which is no file of this folder. Download it again.",
          path, troika::quoted(tensor), troika::quoted(name)));
    }
    files.emplace(tensor, name);
  }
  return files;
}

// Checks that all shards are there which names like model-00001-of-00003.safetensors announce.
void check_shards(const std::string& folder, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    unsigned number = 0, count = 0;
    char end = 0;
    if (std::sscanf(name.c_str(), "model-%5u-of-%5u.safetensor%c", &number, &count, &end) != 3) {
      continue;
    }
    for (unsigned i = 1; i <= count && i <= kMostFiles; ++i) {
      const std::string shard = fmt::format("model-{:05}-of-{:05}.safetensors", i, count);
      if (names.count(shard) > 0) continue;
      throw Error(
          fmt::format("{}/{}: this part of the model is missing. Download it too.", folder, shard));
    }
  }
}

std::set<std::string> list_weights(const std::string& folder) {
  std::set<std::string> names;
  bool has_pickles = false;
  std::error_code failure;
  auto entry = std::filesystem::directory_iterator(folder, failure);
  const bool is_open = !failure;
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors")) names.insert(name);
    has_pickles |= name.ends_with(".bin") || name.ends_with(".pth");
  }
  if (is_open && failure) {
    throw Error(fmt::format("{}: the folder cannot be read to its end: {}. Look at its disk.",
                            folder, failure.message()));
  }
  if (names.empty()) {
    throw Error(fmt::format("{}: the folder has no *.safetensors{}.", folder,
                            has_pickles ? "; save the model as such first, because other files of "
                                          "weights are programs and are not read"
                                        : ". Download the weights too"));
  }
  check_shards(folder, names);
  return names;
}

}  // namespace

SourceFolder::SourceFolder(const std::string& folder) {
  std::map<std::string, std::string> index;
  std::set<std::string> names;
  const std::string whole = fmt::format("{}/{}", folder, kWhole);
  const bool has_whole = is_there(whole);
  if (const std::string path = folder + "/" + kIndex; is_there(path)) {
    try {
      index = read_index(path);
    } catch (const Error&) {
      if (!has_whole) throw;
      note_ = fmt::format(
          "{}: this index cannot be used. It is not needed, because all weights come from {}.",
          path, kWhole);
    }
  }
  for (const auto& [tensor, file] : index) names.insert(file);
  if (has_whole) {
    const auto other = std::find_if(names.begin(), names.end(),
                                    [](const std::string& name) { return name != kWhole; });
    if (other != names.end()) {
      note_ = fmt::format(
          "{}: the weights come from this file, as they do in the library transformers, and not "
          "from those that {} names, such as {}. Remove the file where it is not the model.",
          whole, kIndex, troika::quoted(*other));
      index.clear();
    }
    names = {std::string(kWhole)};
  } else if (!index.empty()) {
    for (const std::string& name : names) {
      if (exists(folder + "/" + name)) continue;
      throw Error(
          fmt::format("{}/{}: this part of the model is missing. Download it too.", folder, name));
    }
  } else {
    names = list_weights(folder);
  }
  if (names.size() > kMostFiles) {
    throw Error(
        fmt::format("{}: {} files of weights; at most {} are read. Remove those of other models.",
                    folder, names.size(), kMostFiles));
  }
  for (const std::string& name : names)
    files_.push_back(SafetensorsFile::open(folder + "/" + name));
  for (const SafetensorsFile& file : files_) {
    for (const SourceTensor& tensor : file.tensors()) {
      const auto [place, is_new] = tensors_.emplace(tensor.name, FoundTensor{&tensor, &file});
      if (is_new) continue;
      throw Error(fmt::format(
          "{}: tensor {} stands in {} too. Remove the files that do not belong to the model.",
          file.path(), troika::quoted(tensor.name), place->second.file->path()));
    }
  }
  for (const auto& [tensor, name] : index) {
    const FoundTensor found = find(tensor);
    if (found.tensor != nullptr && found.file->path() == folder + "/" + name) continue;
    throw Error(
        fmt::format("{}/{}: tensor {} is not in it, as the index says. Download the folder again.",
                    folder, name, troika::quoted(tensor)));
  }
}

FoundTensor SourceFolder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? FoundTensor{} : found->second;
}

uint64_t SourceFolder::bytes() const {
  uint64_t bytes = 0;
  for (const SafetensorsFile& file : files_) bytes += file.file_bytes();
  return bytes;
}

}  // namespace troika::convert
