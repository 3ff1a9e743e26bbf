#include "cli/tune/busy_machine.h"

#include <gtest/gtest.h>

#include "base/system.h"

namespace troika::cli {
namespace {

// Cores that this process may not use say nothing of those that it will measure on.
TEST(BusyMachine, IsJudgedByTheCoresThatMayBeUsed) {
  const std::string before =
      "cpu  900 0 0 2000 0 0 0 0 0 0\n"
      "cpu0 100 0 0 1000 0 0 0 0 0 0\n"
      "cpu1 200 0 0 500 0 0 0 0 0 0\n"
      "cpu10 600 0 0 500 0 0 0 0 0 0\n"
      "intr 5 cpu0 7\n";
  // Idle and waiting are the fourth and the fifth field; guests' ticks are in the first already.
  const std::string after =
      "cpu  1030 0 0 2100 0 0 0 0 0 0\n"
      "cpu0 110 1 2 1024 3 0 0 0 10 0\n"
      "cpu1 200 0 0 540 0 0 0 0 0 0\n"
      "cpu10 640 0 0 500 0 0 0 0 0 0\n"
      "intr 9 cpu0 9\n";
  EXPECT_DOUBLE_EQ(busy_share(before, after, {0}), 13.0 / 40.0);
  EXPECT_DOUBLE_EQ(busy_share(before, after, {1}), 0.0);
  EXPECT_DOUBLE_EQ(busy_share(before, after, {10}), 1.0);
  EXPECT_DOUBLE_EQ(busy_share(before, after, {0, 1}), 13.0 / 80.0);
  EXPECT_DOUBLE_EQ(busy_share(before, after, {7}), 0.0);
  EXPECT_DOUBLE_EQ(busy_share("", "", {0}), 0.0);
}

TEST(BusyMachine, AProfileOfABusyMachineIsTold) {
  EXPECT_EQ(busy_profile_text(0.0), "");
  EXPECT_EQ(busy_profile_text(usable_cores()), "");
  const std::string text = busy_profile_text(usable_cores() + 3.3);
  EXPECT_NE(text.find(".3 on"), std::string::npos) << text;
  EXPECT_NE(text.find("troika profile MODEL --again"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(".\n")) << text;
}

}  // namespace
}  // namespace troika::cli
