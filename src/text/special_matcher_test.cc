#include "text/special_matcher.h"

#include <gtest/gtest.h>

namespace troika::text {
namespace {

TEST(SpecialMatcher, FindsTheLeftmostAndThereTheLongest) {
  const SpecialMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"<", 3}, {"", 4}, {"xyz", 5}});
  const std::string_view text = "..<a>b<a<a>c";
  const auto first = matcher.find(text, 0);
  EXPECT_EQ(first.begin, 2u);
  EXPECT_EQ(first.end, 6u);
  EXPECT_EQ(first.token, 2);
  EXPECT_EQ(matcher.find(text, 6).token, 3);
  EXPECT_EQ(matcher.find(text, 7).token, 1);
  const auto none = matcher.find(text, 11);
  EXPECT_EQ(none.token, kNoToken);
  EXPECT_EQ(none.begin, text.size());
}

TEST(SpecialMatcher, ABeginningAtTheEndIsNoMatch) {
  const SpecialMatcher matcher({{"<end>", 1}});
  EXPECT_EQ(matcher.find("a<en", 0).token, kNoToken);
  EXPECT_EQ(matcher.find("", 0).token, kNoToken);
  EXPECT_EQ(SpecialMatcher({}).find("abc", 0).token, kNoToken);
}

TEST(SpecialMatcher, BytesAboveAsciiAreBytes) {
  const SpecialMatcher matcher({{"｜", 1}, {"a", 2}});
  const auto match = matcher.find("…｜", 0);
  EXPECT_EQ(match.begin, 3u);
  EXPECT_EQ(match.token, 1);
}

}  // namespace
}  // namespace troika::text
