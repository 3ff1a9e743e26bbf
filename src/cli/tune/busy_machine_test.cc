#include "cli/tune/busy_machine.h"

#include <gtest/gtest.h>

#include "base/system.h"

namespace troika::cli {
namespace {

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
