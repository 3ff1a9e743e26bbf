// Limits the addresses that this process may use, so that stacks and memory run out.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace troika::test {

class AddressLimit {
 public:
  // Leaves so many more bytes than are in use now.
  explicit AddressLimit(uint64_t more_bytes) {
    uint64_t n_pages = 0;
    std::ifstream("/proc/self/statm") >> n_pages;
    EXPECT_GT(n_pages, 0u);
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = n_pages * static_cast<uint64_t>(getpagesize()) + more_bytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  }
  ~AddressLimit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace troika::test
