#include "lanes/vendor/blob_shelf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"

namespace troika::lanes::openvino {
namespace {

namespace fs = std::filesystem;

// A blob holds the weights of a model's layers, so it may be much longer than any text.
constexpr uint64_t kMostBlobBytes = uint64_t{1} << 40;

// Returns the head that stands before a blob in its file.
std::string head_of(uint64_t key, std::string_view blob) {
  return fmt::format("troika openvino 1 {:016x} {:016x} {:016x}\n", key, blob.size(),
                     hash_of(blob));
}

}  // namespace

std::string BlobShelf::path_of(uint64_t key) const {
  return fmt::format("{}/{:016x}.blob", folder_, key);
}

std::optional<std::string> BlobShelf::find(uint64_t key) {
  std::optional<std::string> file = read_whole_file(path_of(key), kMostBlobBytes);
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

void BlobShelf::keep(uint64_t key, const std::function<bool(const std::string&)>& write) {
  // Two processes may make the same blob, so each writes a file of its own first.
  const std::string own = fmt::format("{}.{}", path_of(key), getpid());
  std::error_code ignored;
  try {
    fs::create_directories(folder_, ignored);
    if (!write(own)) throw Error("the library did not write it");
    const std::optional<std::string> blob = read_whole_file(own, kMostBlobBytes);
    if (!blob) throw Error("what was written is not there");
    AtomicFile file(path_of(key));
    file.write(head_of(key, *blob));
    file.write(*blob);
    file.commit();
  } catch (const Error& error) {
    if (write_problem_.empty()) write_problem_ = error.what();
  }
  fs::remove(own, ignored);
}

std::string BlobShelf::problem() const {
  std::string text;
  if (n_damaged_ > 0) {
    text = fmt::format(
        "{} of OpenVINO's compiled graphs in {} were damaged or of another version, and have been "
        "compiled again.",
        n_damaged_, folder_);
  }
  if (write_problem_.empty()) return text;
  return text + fmt::format("{}OpenVINO's compiled graphs are not kept in {}: {}",
                            text.empty() ? "" : " ", folder_, write_problem_);
}

}  // namespace troika::lanes::openvino
