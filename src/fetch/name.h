// Names of models on a hub: hf:ORG/REPO[:QUANT].
#pragma once

#include <string>
#include <string_view>

namespace troika::fetch {

struct ModelName {
  std::string org;
  std::string repo;
  // "Q4_K_M", or the name of a file, or its path in the repository; empty where the default is
  // wanted.
  std::string quant;

  std::string repository() const { return org + "/" + repo; }
  // As people write it.
  std::string text() const;
};

// Whether a MODEL means one of a hub: it begins with "hf:".
bool is_model_name(std::string_view text);

// Throws UsageError for what cannot be a name. None of its parts leads out of a folder: ORG and
// REPO are made of letters, digits, '-', '_' and '.', and do not begin with '.'; QUANT is safe.
ModelName parse_model_name(std::string_view text);

// Whether a path of somebody's listing stays below the folder that it is put into, and is made of
// names that a file system can hold.
bool is_safe_path(std::string_view path);

}  // namespace troika::fetch
