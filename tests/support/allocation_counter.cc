#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TROIKA_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TROIKA_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef TROIKA_COUNTS_ALLOCATIONS
#define TROIKA_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<int> n_counters = 0;
std::atomic<int64_t> n_allocations = 0;

}  // namespace

#if TROIKA_COUNTS_ALLOCATIONS

namespace {

void* allocate(size_t size, size_t alignment) {
  if (n_counters.load(std::memory_order_relaxed) > 0) {
    n_allocations.fetch_add(1, std::memory_order_relaxed);
  }
  if (size == 0) size = 1;
  for (;;) {
    void* memory = nullptr;
    if (alignment <= alignof(std::max_align_t)) {
      memory = std::malloc(size);
    } else if (posix_memalign(&memory, alignment, size) != 0) {
      memory = nullptr;
    }
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

// The other forms of `new` and `delete` call these.
void* operator new(size_t size) { return allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

#endif

namespace troika::test {

AllocationCounter::AllocationCounter() : before_(::n_allocations.load()) { ++n_counters; }

AllocationCounter::~AllocationCounter() { --n_counters; }

int64_t AllocationCounter::n_allocations() const { return ::n_allocations.load() - before_; }

bool AllocationCounter::is_on() { return TROIKA_COUNTS_ALLOCATIONS != 0; }

}  // namespace troika::test
