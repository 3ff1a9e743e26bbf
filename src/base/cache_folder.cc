#include "base/cache_folder.h"

#include <cstdlib>

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

}  // namespace troika
