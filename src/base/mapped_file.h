// A file mapped into memory for reading, guarded against being cut short while it is mapped.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace troika {

// Reading a page that a truncated file no longer has raises SIGBUS. The first MappedFile installs a
// handler for the process: it puts zero pages in place of the lost ones and marks the mapping as
// damaged. Faults outside of our mappings go to the handler that was there before.
class MappedFile {
 public:
  // Throws Error where the file cannot be read or is no regular file.
  static MappedFile open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {begin_, size_}; }
  // The descriptor, for direct reads; it lives as long as this object.
  int descriptor() const { return descriptor_; }

  // True if the file has become shorter or unreadable since it was mapped: bytes read meanwhile
  // may be zeros instead of its content. Costs one system call.
  bool damaged() const;

 private:
  void close() noexcept;

  std::string path_;
  const std::byte* begin_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  int guard_ = -1;  // index into the table that the signal handler reads
};

}  // namespace troika
