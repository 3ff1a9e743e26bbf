#include "lanes/kept_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/side_file.h"

namespace troika::lanes {

std::string KeptFiles::path_of(uint64_t key) const {
  return fmt::format("{}/{}{:016x}{}", folder_, kind_.prefix, key, kind_.extension);
}

// Returns the head that stands before the content in its file.
std::string KeptFiles::head_of(uint64_t key, std::string_view content) const {
  return fmt::format("troika {} 1 {:016x} {:016x} {:016x}\n", kind_.name, key, content.size(),
                     hash_of(content));
}

std::optional<std::string> KeptFiles::find(uint64_t key) {
  if (folder_.empty()) return std::nullopt;
  std::optional<std::string> file = read_side_file(path_of(key), kMostKeptBytes);
  if (!file) return std::nullopt;
  const size_t length = head_of(key, "").size();
  const std::string_view all = *file;
  if (all.size() >= length && all.substr(0, length) == head_of(key, all.substr(length))) {
    file->erase(0, length);
    return file;
  }
  ++n_damaged_;
  return std::nullopt;
}

void KeptFiles::keep(uint64_t key, FunctionRef<std::string(const std::string& path)> make) {
  if (folder_.empty()) return;
  // Two processes may make the same at once, so each has a path of its own.
  const std::string own = fmt::format("{}.{}", path_of(key), getpid());
  std::error_code ignored;
  try {
    std::filesystem::create_directories(folder_, ignored);
    const std::string content = make(own);
    AtomicFile file(path_of(key));
    file.write(head_of(key, content));
    file.write(content);
    file.commit();
  } catch (const Error& error) {
    if (write_problem_.empty()) write_problem_ = error.what();
  }
  std::filesystem::remove(own, ignored);
}

std::string KeptFiles::problem() const {
  std::string text;
  if (n_damaged_ > 0) {
    text = fmt::format(
        "{} of the {} in {} were damaged or of another version, and have been compiled again.",
        n_damaged_, kind_.what, folder_);
  }
  if (write_problem_.empty()) return text;
  return text + fmt::format("{}The {} are not kept in {}: {}", text.empty() ? "" : " ", kind_.what,
                            folder_, write_problem_);
}

}  // namespace troika::lanes
