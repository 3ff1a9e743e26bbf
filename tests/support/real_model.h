// Finds the trained chat model from elsewhere, where scripts/real_model.py has fetched it.
#pragma once

#include <cstdlib>
#include <string>

namespace troika::test_support {

// Returns its path, whether it is there or not.
inline std::string real_model_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::string folder = cache != nullptr && cache[0] == '/' ? cache : "";
  if (folder.empty() && home != nullptr) folder = std::string(home) + "/.cache";
  return folder + "/troika/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace troika::test_support
