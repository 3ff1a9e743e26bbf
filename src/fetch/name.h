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
  // Returns the name as people write it.
  std::string text() const;
};

// Says whether a MODEL means one on a hub: it begins with "hf:".
bool is_model_name(std::string_view text);

// Throws UsageError for what cannot be a name. No part of a name leads out of a folder: ORG and
// REPO consist of letters, digits, '-', '_' and '.', and do not begin with '.'; QUANT is a safe
// path.
ModelName parse_model_name(std::string_view text);

// Says whether a path from somebody's listing leads out of the folder that it is put into: it
// begins with a slash, or one of its names is "..".
bool leads_out(std::string_view path);

// Says whether a path from somebody's listing stays below the folder that it is put into, and
// consists of names that a file system can hold.
bool is_safe_path(std::string_view path);

}  // namespace troika::fetch
