#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>

#include "base/error.h"
#include "base/os_error.h"

namespace troika {
namespace {

std::string next_partial_path(const std::string& target) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.partial-{}-{}", target, getpid(), counter.fetch_add(1));
}

// Returns such a path for a target in the folder; a short one where the target's name is long.
std::string next_partial_path(const std::string& target, const std::string& folder) {
  const std::string path = next_partial_path(target);
  const size_t n = std::filesystem::path(path).filename().native().size();
  return n <= NAME_MAX ? path : next_partial_path(folder + "/troika");
}

}  // namespace

std::string written_path(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;
  std::error_code ignored;
  std::string target = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, ignored); ++i) {
    const fs::path to = fs::read_symlink(target, ignored);
    if (to.empty()) break;
    target = (fs::path(target).parent_path() / to).string();
  }
  return target;
}

int give_name_by_link(int descriptor, const char* path) {
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor);
  return ::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

AtomicFile::AtomicFile(std::string path, unsigned mode, GiveName give_name)
    : mode_(mode), give_name_(give_name), path_(std::move(path)), target_(path_) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path_.empty()) throw Error("The path of the file to write is empty; give a path.");
  if (path_ == "-") {
    throw UsageError(
        "- stands for standard input. Give the file to write a name; ./- is one of this name.");
  }
  target_ = written_path(path_);
  if (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored)) {
    throw Error(
        fmt::format("{}: cannot write it: it exists and is not a regular file; choose another "
                    "path.",
                    path_));
  }
  folder_ = fs::path(target_).parent_path().string();
  if (folder_.empty()) folder_.push_back('.');
  // What a person has made private stays so.
  if (struct stat replaced; ::stat(target_.c_str(), &replaced) == 0) mode_ &= replaced.st_mode;
  open_partial();
}

// Returns the descriptor of a new file without a name; below 0 where there is none.
int AtomicFile::open_nameless() const {
#ifdef O_TMPFILE
  // Without /proc a file without a name could not get its name later.
  if (::access("/proc/self/fd", X_OK) == 0) {
    return ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_);
  }
#endif
  return -1;
}

// Says whether files without a name can get one in this folder. Some systems make such files, but
// forbid what names them, and whoever learns that at the end has written all for nothing. So an
// empty file tries it, once for each file system, which must be another one than that which is
// written: once its name is removed it can have no other.
bool AtomicFile::can_give_names() const {
  const int descriptor = open_nameless();
  if (descriptor < 0) return false;
  struct stat status = {};
  const dev_t device = ::fstat(descriptor, &status) == 0 ? status.st_dev : dev_t{};
  static std::mutex mutex;
  static std::map<std::pair<dev_t, GiveName>, bool> tried;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [found, is_new] = tried.try_emplace({device, give_name_}, false);
  if (is_new) {
    std::string name;
    int result = 0;
    do {
      name = next_partial_path(folder_ + "/troika");  // a short name, which never is too long
      result = give_name_(descriptor, name.c_str());
    } while (result != 0 && errno == EEXIST);
    if (result == 0) ::unlink(name.c_str());
    found->second = result == 0;
  }
  ::close(descriptor);
  return found->second;
}

void AtomicFile::open_partial() {
  if (can_give_names()) descriptor_ = open_nameless();
  if (descriptor_ >= 0) return;
  // Opening this file also finds the reason why the folder cannot be written. A file of this name
  // was left by a process that was killed and had this number: in a container all may have the
  // same.
  do {
    partial_path_ = next_partial_path(target_, folder_);
    descriptor_ = ::open(partial_path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode_);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    partial_path_.clear();
    throw_errno(path_, "write it");
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!partial_path_.empty()) ::unlink(partial_path_.c_str());
  partial_path_.clear();
}

void AtomicFile::fail(std::string_view action) {
  const int error_number = errno;
  discard();
  errno = error_number;
  throw_errno(path_, action);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TROIKA_ASSERT(descriptor_ >= 0);
  // Linux writes at most 2 GiB per call; smaller pieces also notice a full disk sooner.
  constexpr size_t kMaxPiece = size_t{1} << 26;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = EIO;
      fail(fmt::format("write more than {} bytes of it", bytes_written_));
    }
    bytes_written_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  TROIKA_ASSERT(descriptor_ >= 0);
  if (::fsync(descriptor_) != 0) fail("flush it to the disk");
  if (partial_path_.empty()) {
    // Where there is no file of the name yet, none is left beside it by a process that is killed. A
    // file without a name cannot replace another one: it gets a name beside it first.
    std::string name = target_;
    int result = 0;
    while ((result = give_name_(descriptor_, name.c_str())) != 0 && errno == EEXIST) {
      name = next_partial_path(target_, folder_);
    }
    if (result != 0) fail("give it its name");
    if (name != target_) partial_path_ = name;
  }
  if (!partial_path_.empty() && ::rename(partial_path_.c_str(), target_.c_str()) != 0) {
    fail("give it its name");
  }
  partial_path_.clear();
  ::close(descriptor_);
  descriptor_ = -1;
  // The new name is safe once the folder is on the disk, but not every file system can do this.
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::optional<std::string> read_whole_file(const std::string& path, uint64_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  constexpr size_t kPieceBytes = 65536;
  std::string bytes;
  for (size_t n_read = kPieceBytes; n_read == kPieceBytes;) {
    const size_t before = bytes.size();
    bytes.resize(before + kPieceBytes);
    file.read(bytes.data() + before, kPieceBytes);
    n_read = static_cast<size_t>(file.gcount());
    bytes.resize(before + n_read);
    if (bytes.size() > most_bytes) throw too_long(path, most_bytes);
  }
  // A folder can be opened and not read, and a disk may fail.
  if (file.bad()) return std::nullopt;
  return bytes;
}

Error too_long(const std::string& name, uint64_t most_bytes) {
  return Error(fmt::format(
      "{}: has more than {} bytes, the most that is read of such a text. Name another file.", name,
      most_bytes));
}

void refuse_to_replace(const std::string& source, const std::string& output) {
  std::error_code ignored;  // if one of them is not there, they are not the same
  if (!std::filesystem::equivalent(source, output, ignored)) return;
  throw UsageError(fmt::format("{}: that is {}, which is read. Choose another name for the output.",
                               output, source));
}

}  // namespace troika
