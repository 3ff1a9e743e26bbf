// Counts what is allocated with `new`, by all threads of the program.
#pragma once

#include <cstdint>

namespace troika::test {

// Counts from its construction on. Counters may overlap.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  int64_t n_allocations() const;

  // False under sanitizers, which have an operator of their own: then nothing is ever counted, and
  // a test that counts is to be skipped.
  static bool is_on();

 private:
  int64_t before_;
};

}  // namespace troika::test
