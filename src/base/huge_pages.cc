#include "base/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

namespace troika {

bool gives_huge_pages(const std::string& root) {
  std::ifstream file(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);  // "always [madvise] never"
  return text.find("[always]") != std::string::npos || text.find("[madvise]") != std::string::npos;
}

size_t huge_bytes_within(const void* begin, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t last = first + size;
  std::ifstream file("/proc/self/smaps");
  size_t bytes = 0;
  bool is_ours = false;
  for (std::string line; std::getline(file, line);) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    char permission = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %c", &from, &to, &permission) == 3) {
      is_ours = from < last && to > first;
      continue;
    }
    if (!is_ours) continue;
    for (const char* name : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) {
      if (line.rfind(name, 0) != 0) continue;
      bytes += size_t{1024} * std::strtoull(line.c_str() + std::string(name).size(), nullptr, 10);
    }
  }
  return std::min(bytes, size);
}

std::byte* reserve_aligned(size_t size) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size = (size + page - 1) / page * page;
  const size_t reserved = size + kHugePageBytes;
  void* memory =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory);
  const uintptr_t rest = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  const size_t before = rest == 0 ? 0 : kHugePageBytes - rest;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kHugePageBytes - before);
  return begin + before;
}

void prefer_huge_pages(void* begin, size_t size) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t last = (address + size) / kHugePageBytes * kHugePageBytes;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

void HugeBuffer::Free::operator()(std::byte* memory) const { std::free(memory); }

HugeBuffer::HugeBuffer(size_t bytes) : size_(bytes) {
  constexpr size_t kCacheLine = 64;
  const bool is_large = bytes >= kHugePageBytes;
  void* memory = nullptr;
  if (posix_memalign(&memory, is_large ? kHugePageBytes : kCacheLine, bytes) != 0) {
    throw std::bad_alloc();
  }
  if (is_large) madvise(memory, bytes, MADV_HUGEPAGE);  // the system may ignore this
  memory_.reset(static_cast<std::byte*>(memory));
}

PageBuffer::PageBuffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  std::byte* const place = reserve_aligned(bytes);
  if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    munmap(place, bytes);
    throw std::bad_alloc();
  }
  if (bytes >= kHugePageBytes) madvise(place, bytes, MADV_HUGEPAGE);  // the system may ignore this
  memory_ = place;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept { *this = std::move(other); }

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  if (this == &other) return *this;
  if (memory_ != nullptr) munmap(memory_, size_);
  memory_ = std::exchange(other.memory_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

}  // namespace troika
