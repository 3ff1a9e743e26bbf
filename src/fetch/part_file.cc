#include "fetch/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::fetch {
namespace {

// Says whether this error of flock tells that the file system has no locks at all, as some of
// networks and of phones have none.
bool means_no_locks(int error_number) {
  return error_number == ENOSYS || error_number == ENOLCK || error_number == EOPNOTSUPP;
}

// Says whether an open file still has its name. A lock is on the file: somebody may remove the
// name, and another process may then make a new file there.
bool has_name(int descriptor, const std::string& path) {
  struct stat mine = {}, named = {};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

}  // namespace

PartFile::PartFile(std::string path, const std::function<void()>& wait,
                   const ProgressFunction& progress, const Sha& start)
    : path_(std::move(path)), start_(start), hash_(start) {
  bool has_told = false;
  const auto tell_once = [&] {
    if (!has_told) wait();
    has_told = true;
  };
  while (!open_locked(tell_once)) {
  }
  try {
    read_all(progress);
  } catch (...) {
    close();
    throw;
  }
}

// Opens and locks the file. Returns false where the locked file has meanwhile got its final name,
// or none.
bool PartFile::open_locked(const std::function<void()>& wait) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) throw_errno(path_, "write it");
  int locked = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  if (locked != 0 && errno == EWOULDBLOCK) {
    wait();
    do {
      locked = ::flock(descriptor_, LOCK_EX);
    } while (locked != 0 && errno == EINTR);
  }
  const int error_number = locked == 0 ? 0 : errno;
  const bool may_go_on = error_number == 0 || means_no_locks(error_number);
  if (may_go_on && has_its_name()) return true;
  close();
  errno = error_number;
  if (!may_go_on) throw_errno(path_, "lock it");
  return false;
}

bool PartFile::has_its_name() const { return has_name(descriptor_, path_); }

void PartFile::read_all(const ProgressFunction& progress) {
  struct stat state = {};
  if (::fstat(descriptor_, &state) != 0) throw_errno(path_, "read it");
  const auto total = static_cast<uint64_t>(state.st_size);
  std::vector<std::byte> buffer(total == 0 ? 0 : size_t{1} << 20);
  while (bytes_ < total) {
    const ssize_t n = ::read(descriptor_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(path_, "read it");
    if (n == 0) break;
    hash_.add(std::span(buffer).first(static_cast<size_t>(n)));
    bytes_ += static_cast<uint64_t>(n);
    progress(bytes_, total);
  }
}

PartFile::~PartFile() {
  if (bytes_ == 0) remove();
  close();
}

// Closes the file; then another process may take it.
void PartFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void PartFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = EIO;
      throw_errno(path_, "write more of it");
    }
    hash_.add(bytes.first(static_cast<size_t>(n)));
    bytes_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void PartFile::back_to(const Mark& mark) {
  const auto offset = static_cast<off_t>(mark.bytes);
  if (::ftruncate(descriptor_, offset) != 0 || ::lseek(descriptor_, offset, SEEK_SET) != offset) {
    throw_errno(path_, "take back what was written");
  }
  bytes_ = mark.bytes;
  hash_ = mark.hash;
}

void PartFile::remove() {
  if (descriptor_ >= 0 && has_its_name()) ::unlink(path_.c_str());
  close();
}

void PartFile::remove_unused(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, path)) {
    ::unlink(path.c_str());
  }
  ::close(descriptor);
}

void PartFile::commit(const std::string& target) {
  if (::fsync(descriptor_) != 0) throw_errno(path_, "flush it to the disk");
  if (!has_its_name()) {
    throw Error(path_ + ": somebody removed this file while it grew. Give the command again.");
  }
  if (::rename(path_.c_str(), target.c_str()) != 0) throw_errno(target, "give the file its name");
  close();
  // The new name is safe once the folder is on the disk, but not every file system can do this.
  const std::string folder = std::filesystem::path(target).parent_path().string();
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  (void)::fsync(opened);
  ::close(opened);
}

}  // namespace troika::fetch
