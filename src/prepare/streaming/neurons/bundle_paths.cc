#include "prepare/streaming/neurons/bundle_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "prepare/side_files.h"
#include "weights/neurons/bundle_file.h"

namespace troika::prepare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEndOfBundles = ".bin";

// Returns what all files of the model's bundles begin with: "FOLDER/bundles-0123456789abcdef".
std::string begin_of_bundles(const gguf::File& file) {
  std::string path = neuron_file_path("bundles", file);
  path.resize(path.size() - kEndOfBundles.size());
  return path;
}

}  // namespace

std::string bundle_file_path(const gguf::File& file, uint64_t form_key) {
  // Half of the key is enough for a name, because the file itself says for which form it is.
  const auto form = static_cast<uint32_t>(form_key ^ (form_key >> 32));
  return fmt::format("{}-{:08x}{}", begin_of_bundles(file), form, kEndOfBundles);
}

std::vector<std::string> remove_old_bundles(const gguf::File& file, uint64_t model_key) {
  const fs::path begin = begin_of_bundles(file);
  const std::string name_begin = begin.filename().string();
  std::vector<fs::path> old;
  std::error_code failure;
  for (auto entry = fs::directory_iterator(begin.parent_path(), failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (!name.starts_with(name_begin) || !name.ends_with(kEndOfBundles)) continue;
    // Versions before this one knew one form of a model only.
    const bool has_form = name.size() > name_begin.size() + kEndOfBundles.size();
    if (!has_form || weights::holds_other_bundles(path.string(), model_key)) old.push_back(path);
  }
  std::vector<std::string> removed;
  for (const fs::path& path : old) {
    if (fs::remove(path, failure) && !failure) removed.push_back(path.filename().string());
  }
  std::sort(removed.begin(), removed.end());
  return removed;
}

}  // namespace troika::prepare
