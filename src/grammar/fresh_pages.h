// Gives large lists room in pages of their own: they cost nothing before they are written to, and
// are the system's again when the list ends. What malloc() gives may lie in pages that somebody has
// written to before, and these stay the process's as long as the list.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

// The address sanitizer sees what is written beyond a list only where malloc() gave its room.
#if defined(__SANITIZE_ADDRESS__)
#define TROIKA_HAS_FRESH_PAGES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROIKA_HAS_FRESH_PAGES 0
#endif
#endif
#ifndef TROIKA_HAS_FRESH_PAGES
#define TROIKA_HAS_FRESH_PAGES 1
#endif

namespace troika::grammar {

#if TROIKA_HAS_FRESH_PAGES

template <typename T>
struct FreshPages {
  using value_type = T;

  FreshPages() = default;
  template <typename Other>
  FreshPages(const FreshPages<Other>&) {}

  T* allocate(size_t n) {
    void* const pages =
        ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(pages);
  }
  void deallocate(T* pages, size_t n) noexcept { ::munmap(pages, n * sizeof(T)); }

  bool operator==(const FreshPages&) const = default;
};
#else
template <typename T>
using FreshPages = std::allocator<T>;
#endif

}  // namespace troika::grammar
