// Limits the addresses that this process may use, so that stacks and memory run out.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace troika::test {

class AddressLimit {
 public:
  // Leaves so many more bytes than are in use now.
  explicit AddressLimit(uint64_t more_bytes) : more_bytes_(more_bytes) {
    uint64_t n_pages = 0;
    std::ifstream("/proc/self/statm") >> n_pages;
    EXPECT_GT(n_pages, 0u);
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = n_pages * static_cast<uint64_t>(getpagesize()) + more_bytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  }
  ~AddressLimit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  // Says whether the system keeps to the limit. An emulator of another processor may not.
  bool is_held() const {
    void* const beyond = mmap(nullptr, 2 * more_bytes_, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (beyond == MAP_FAILED) return true;
    munmap(beyond, 2 * more_bytes_);
    return false;
  }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  const uint64_t more_bytes_;
  rlimit before_ = {};
};

}  // namespace troika::test
