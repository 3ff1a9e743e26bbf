// A file mapped into memory for reading, guarded against being cut short while it is mapped.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troika {

class Team;

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
  // Returns the descriptor, for direct reads; it lives as long as this object.
  int descriptor() const { return descriptor_; }

  // Says whether the file comes in huge pages: asks for such pages, touches a few places, and looks
  // at how the kernel has mapped them. Only some file systems have such pages, and only for what is
  // not in the page cache in small pages already.
  bool comes_in_huge_pages();
  // Reads the file into memory of this process, in huge pages where the system gives them, and puts
  // it in place of the mapping: addresses stay. Later changes of the file are not seen. Where
  // memory runs out the rest stays mapped. Returns the bytes copied.
  size_t copy_into_memory(Team& team) { return copy_into_memory(team, {{0, size_}}); }
  // Copies parts of the file into memory in the same way. Each part begins with the whole huge page
  // in which it begins.
  struct Range {
    size_t begin, end;
  };
  size_t copy_into_memory(Team& team, const std::vector<Range>& ranges);

  // Says whether all of the file is memory of this process.
  bool is_copied() const { return is_copied({0, size_}); }
  // Says whether some of the file is memory of this process.
  bool has_copies() const { return !copied_.empty(); }
  // Says whether this part of the file is memory of this process.
  bool is_copied(Range range) const;
  // Lets this process change what it has copied, which the file does not notice, or forbids it
  // again. Returns whether the system does so.
  bool set_writable(bool is_writable);

  // Lets reads of this part bring no more pages from the disk than those that are read.
  void expect_few(Range range);
  // Gives back the pages that hold nothing but this part of the file; whoever reads there gets them
  // again. REQUIRES: none of it was copied into memory.
  void let_go(Range range);

  // Says whether the file has become shorter or unreadable since it was mapped: then bytes that
  // were read meanwhile may be zeros instead of its content. Costs one system call.
  bool damaged() const;

 private:
  void advise(Range range, int advice);
  void close() noexcept;
  bool copy_piece(size_t at, size_t size);
  void join_copied();

  std::string path_;
  const std::byte* begin_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  int guard_ = -1;             // an index into the table that the signal handler reads
  std::vector<Range> copied_;  // in order, with gaps between them
};

}  // namespace troika
