// Counts what all threads of the program allocate with `new`.
#pragma once

#include <cstdint>

namespace troika::test {

// A counter counts from its construction on. Counters may overlap.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  int64_t n_allocations() const;

  // Returns false under sanitizers, which replace `new` themselves: then nothing is counted, and a
  // test that counts must be skipped.
  static bool is_on();

 private:
  int64_t before_;
};

}  // namespace troika::test
