#include "base/side_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/os_error.h"

namespace troika {

SideFile::SideFile(const std::string& path, std::string* problem) {
  problem->clear();
  // Without O_NONBLOCK the call would wait for a writer if the path is a pipe.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    if (errno != ENOENT) *problem = "cannot be read (" + explain_errno(errno) + ")";
  } else if (!S_ISREG(status.st_mode)) {
    *problem = "is no regular file";
  } else {
    bytes_ = static_cast<uint64_t>(status.st_size);
    return;
  }
  *this = SideFile();
}

SideFile::SideFile(SideFile&& other) noexcept { *this = std::move(other); }

SideFile& SideFile::operator=(SideFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SideFile::~SideFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool SideFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to = to.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

std::optional<std::string> read_side_file(const std::string& path, uint64_t most_bytes) {
  std::string problem;
  const SideFile file(path, &problem);
  if (!file.is_open() || file.bytes() > most_bytes) return std::nullopt;
  std::string text(file.bytes(), '\0');
  if (!file.read(0, std::as_writable_bytes(std::span(text)))) return std::nullopt;
  return text;
}

}  // namespace troika
