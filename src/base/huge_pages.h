// Memory in pages of 2 MB. A processor that streams weights through pages of 4 KB spends up to a
// third of the time on finding the pages, and more under a hypervisor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace troika {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Says whether the system gives huge pages to programs that ask. `root` is where /sys lies, for
// tests.
bool gives_huge_pages(const std::string& root = "");

// Returns how many bytes of a range lie in huge pages now, as the kernel's table of mappings tells.
size_t huge_bytes_within(const void* begin, size_t size);

// Returns address space for `size` bytes that begins at a huge page; throws std::bad_alloc. Nothing
// can be read or written there yet. It is given back with munmap.
std::byte* reserve_aligned(size_t size);

// Asks for huge pages where whole ones lie within a range that nobody has written to yet. The
// system may ignore this.
void prefer_huge_pages(void* begin, size_t size);

// Uninitialised memory, in huge pages where there are any and the size makes it worth while.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t bytes);  // throws std::bad_alloc
  std::byte* get() const { return memory_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  size_t size_ = 0;
};

// Memory of zeros that begins at a huge page and goes back to the system as soon as it is not
// needed; memory given back to the heap may stay with the heap.
class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(size_t bytes);  // throws std::bad_alloc
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  std::byte* get() const { return memory_; }
  size_t size() const { return size_; }

 private:
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace troika
