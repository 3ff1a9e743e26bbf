#include "tune/calibration_state.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"

namespace troika::tune {
namespace {

// Grows when the form of the file changes, or what the results of its passes mean.
constexpr uint64_t kVersion = 2;

}  // namespace

CalibrationState::CalibrationState(const std::string& folder, const std::string& identity,
                                   const std::string& kind, bool is_anew)
    : kind_(kind), text_("{}") {
  if (folder.empty()) return;
  make_kept_folder(folder);
  Fnv hash;
  hash.add(kVersion);
  hash.add(identity);
  path_ = fmt::format("{}/{}-{:016x}.json", folder, kind, hash.value());
  std::error_code failure;
  if (is_anew && std::filesystem::is_regular_file(path_, failure)) remove();
  load();
}

void CalibrationState::load() {
  std::error_code ignored;
  const std::filesystem::file_status state = std::filesystem::status(path_, ignored);
  if (!std::filesystem::exists(state)) return;
  if (!std::filesystem::is_regular_file(state)) {  // reading a pipe might never end
    throw Error(fmt::format("{}: is no file, and in the way of one. Remove it.", path_));
  }
  const std::optional<std::string> text = read_whole_file(path_);
  const nlohmann::json json = plan::parse_json(text.value_or(""), path_, advice());
  if (!json.is_object()) {
    throw Error(fmt::format("{}: what was found out before it was cut off cannot be read. {}",
                            path_, advice()));
  }
  text_ = *text;
  n_found_earlier_ = json.size();
}

std::string CalibrationState::advice() const {
  if (path_.empty()) return "";
  return fmt::format("'troika cache --remove {}' takes it away.",
                     std::filesystem::path(path_).filename().string());
}

nlohmann::json CalibrationState::finding(const std::string& pass,
                                         const std::function<nlohmann::ordered_json()>& run) {
  if (!nlohmann::json::parse(text_).contains(pass)) {
    nlohmann::ordered_json found = run();
    auto all = nlohmann::ordered_json::parse(text_);  // has what the pass has found on its way
    all[pass] = std::move(found);
    // The name of a text may be no UTF-8, which JSON must be.
    text_ = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!path_.empty()) write_file(path_, text_);
  }
  return nlohmann::json::parse(text_).at(pass);
}

plan::JsonFields CalibrationState::fields(const std::string& pass,
                                          const std::function<nlohmann::ordered_json()>& run) {
  return plan::JsonFields::parse(finding(pass, run).dump(), path_, advice());
}

void CalibrationState::remove() {
  if (path_.empty()) return;
  std::error_code ignored;  // only the same calibration would read it again
  std::filesystem::remove(path_, ignored);
}

void CalibrationState::remove_all() {
  if (path_.empty()) return;
  remove();
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(fs::path(path_).parent_path(), ignored);
       !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    std::error_code is_kept;  // no later run would read it
    if (name.starts_with(kind_ + "-") && name.ends_with(".json")) fs::remove(*entry, is_kept);
  }
}

}  // namespace troika::tune
