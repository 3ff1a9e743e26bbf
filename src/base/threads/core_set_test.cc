#include "base/threads/core_set.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/system.h"

namespace troika {
namespace {

TEST(CoreSet, HasRoomForTheCoresOfLargeMachines) {
  const std::vector<int> all = {3, 1023, 1024, 1500, 2047, 3999};
  int n_calls = 0;
  const auto read = [&](size_t bytes, cpu_set_t* set) {
    ++n_calls;
    if (bytes * 8 < 4000) {
      errno = EINVAL;
      return -1;
    }
    for (const int core : all) CPU_SET_S(core, bytes, set);
    return 0;
  };
  EXPECT_EQ(cores_in_set(read), all);
  EXPECT_EQ(n_calls, 3);
}

TEST(CoreSet, HasNoCoresWhereTheSystemDoesNotSay) {
  int n_calls = 0;
  const auto fail_with = [&](int error) {
    n_calls = 0;
    return cores_in_set([&n_calls, error](size_t, cpu_set_t*) {
      ++n_calls;
      errno = error;
      return -1;
    });
  };
  EXPECT_TRUE(fail_with(ENOSYS).empty());
  EXPECT_EQ(n_calls, 1);
  EXPECT_TRUE(fail_with(EINVAL).empty());
  EXPECT_LT(n_calls, 20);
}

TEST(CoreSet, AThreadIsBoundThereAndBack) {
  const std::vector<int> before = cores_of_thread();
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(before, usable_core_numbers());
  {
    // The system ignores what it has not.
    const OnCores on_cores(std::vector<int>{before.back(), 5000});
    EXPECT_EQ(cores_of_thread(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(cores_of_thread(), before);
  CoreSet(std::vector<int>{-1, 2000000000}).bind_thread();
  EXPECT_EQ(cores_of_thread(), before);
}

}  // namespace
}  // namespace troika
