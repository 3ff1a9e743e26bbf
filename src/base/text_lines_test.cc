#include "base/text_lines.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

TEST(TextLines, TextsAreBrokenAtSpacesWhereTheyAreTooWide) {
  const std::vector<std::string> lines = lines_of("one two three four", 10.0, 0.5, 60.0);
  EXPECT_EQ(lines, (std::vector<std::string>{"one two", "three four"}));
  EXPECT_EQ(lines_of("averyveryverylongword b", 10.0, 0.5, 60.0).size(), 2u);
  EXPECT_TRUE(lines_of("", 10.0, 0.5, 60.0).empty());
}

TEST(TextLines, LettersAreCountedAndNotBytes) {
  EXPECT_EQ(text_width("µs", 10.0, 0.5), 10.0);
  EXPECT_EQ(text_width("", 10.0), 0.0);
}

}  // namespace
}  // namespace troika
