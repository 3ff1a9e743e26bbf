#include "cli/installed.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/output.h"

namespace troika::cli {

std::string phones_path(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path asked = path;
  std::error_code ignored;
  if (asked.empty() || *asked.begin() != "phones" || fs::exists(asked, ignored)) return path;
  // The link leads to the program itself, under whatever name it was called.
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / "share" / "troika" / asked;
  if (program.empty() || !fs::exists(installed, ignored)) return path;
  note(fmt::format("note: {} is not here, so {} is taken\n", path, installed.string()));
  return installed.string();
}

}  // namespace troika::cli
