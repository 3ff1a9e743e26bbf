#include "base/cache_folder.h"

#include <cstdlib>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"

namespace troika {

std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/troika";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] != '\0') return std::string(home) + "/.cache/troika";
  throw Error(
      "Neither XDG_CACHE_HOME nor HOME is set, so there is no place for what is kept between runs. "
      "Set one of them, or give ‹no-cache› where a command has it.");
}

void make_kept_folder(const std::string& folder, const std::string& way_out) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (!failure) return;
  throw Error(folder + ": the folder cannot be made: " + failure.message() + ". " + way_out);
}

void make_place_for(const std::string& side_file) {
  namespace fs = std::filesystem;
  make_kept_folder(fs::path(side_file).parent_path().string());
  std::error_code ignored;
  if (!fs::exists(side_file, ignored) || fs::is_regular_file(side_file, ignored)) return;
  throw Error(side_file +
              ": what stands there is no regular file, and a side file belongs there. Remove it.");
}

void check_kept_file(const std::string& path) {
  make_place_for(path);
  const AtomicFile probe(path);
}

}  // namespace troika
