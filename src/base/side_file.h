// A side file that is open for reading. At its path may stand anything, and whoever opens a pipe in
// the usual way waits for its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace troika {

class SideFile {
 public:
  SideFile() = default;
  // Opens a regular file, and waits for nobody. Where it cannot, `problem` says why, as words that
  // follow the file's name in a sentence; it is empty where there is no file.
  SideFile(const std::string& path, std::string* problem);
  SideFile(SideFile&& other) noexcept;
  SideFile& operator=(SideFile&& other) noexcept;
  ~SideFile();

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  uint64_t bytes() const { return bytes_; }
  // Fills `to` with the bytes from `offset` on. Returns false where the file does not have them.
  bool read(uint64_t offset, std::span<std::byte> to) const;

 private:
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

// Returns the bytes of a whole side file; nothing where it cannot be read, is no regular file or
// has more than `most_bytes`.
std::optional<std::string> read_side_file(const std::string& path, uint64_t most_bytes);

}  // namespace troika
