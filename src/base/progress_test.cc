#include "base/progress.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace troika {
namespace {

TEST(Progress, LineFitsTheTerminal) {
  EXPECT_EQ(Progress::line("pack", 0, 10, 23), "pack [          ]   0%");
  EXPECT_EQ(Progress::line("pack", 5, 10, 23), "pack [#####     ]  50%");
  EXPECT_EQ(Progress::line("pack", 10, 10, 23), "pack [##########] 100%");
  EXPECT_EQ(Progress::line("pack", 10, 10, 15), "100%");
  EXPECT_LT(Progress::line("pack", 1, 3, 500).size(), 80u);
}

TEST(Progress, OddCountsAreHarmless) {
  EXPECT_EQ(Progress::line("pack", 0, 0, 23), "pack [##########] 100%");
  EXPECT_EQ(Progress::line("pack", 11, 10, 23), "pack [##########] 100%");
}

TEST(Progress, IsQuietWhereNobodyLooks) {
  std::FILE* stream = std::tmpfile();
  ASSERT_NE(stream, nullptr);
  {
    Progress progress("pack", stream);
    const ProgressFunction function = progress.function();
    function(5, 10);
    function(10, 10);
  }
  EXPECT_EQ(std::ftell(stream), 0);
  std::fclose(stream);
}

}  // namespace
}  // namespace troika
