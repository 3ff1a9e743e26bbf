#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

bool regex_fits(std::string_view regex, std::string_view text) {
  return accepts(compiled(regex, Format::kRegex), text);
}

TEST(Regex, FitsTheWholeText) {
  struct Case {
    const char* regex;
    const char* good;
    const char* bad;
  };
  const Case cases[] = {
      {"a(b|cd)*e", "abcdbe", "abce"},
      {"^[a-c]{2,3}$", "abc", "abca"},
      {"(^|x)a(b|$)", "xa", "xac"},
      {R"(\d+(\.\d+)?)", "12.5", "12."},
      {R"([^\s"]+)", "a中é", "a b"},
      {R"(\w+@\w+\.(com|org))", "ab@cd.org", "ab@cd.net"},
      {"a.c", "a中c", "a\nc"},
      {R"([\w.-]+)", "a-b.c", "a/b"},
      {R"(\x41\u00e9\u{1F600}\uD83D\uDE00)", "Aé😀😀", "Aé😀"},
      {"x{,3}", "x{,3}", "xx"},
      {"(?:a|b)+?(?<name>c)", "abac", "ab"},
      {R"(\p{L}+\P{L})", "École1", "École"},
      {"[]|a", "a", "]"},
      {"[^]", "]", ""},
      {"", "", "a"},
      {"(a{0,2}b){3}", "aabbab", "aaabbab"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(regex_fits(c.regex, c.good)) << c.regex;
    EXPECT_FALSE(regex_fits(c.regex, c.bad)) << c.regex;
  }
}

// Random regular expressions accept the texts that those of the standard library accept.
TEST(Regex, AgreesWithAnotherImplementation) {
  uint32_t random = 5;
  int n_good = 0;
  const std::function<std::string(int)> make = [&](int depth) -> std::string {
    const char* const atoms[] = {"a", "b", "[ab]", "[^a]", ".", "c"};
    if (depth == 0) return atoms[next_random(&random, 6)];
    switch (next_random(&random, 5)) {
      case 0:
        return "(" + make(depth - 1) + "|" + make(depth - 1) + ")";
      case 1:
        return "(" + make(depth - 1) + ")" + (next_random(&random, 2) ? "*" : "?");
      case 2:
        return "(" + make(depth - 1) + "){1,2}";
      default:
        return make(depth - 1) + make(depth - 1);
    }
  };
  for (int i = 0; i < 200; ++i) {
    const std::string regex = make(3);
    const auto grammar = compiled(regex, Format::kRegex);
    const std::regex other(regex);
    for (int j = 0; j < 8; ++j) {
      std::string text;
      for (uint32_t n = next_random(&random, 8); n > 0; --n) {
        text += static_cast<char>('a' + next_random(&random, 3));
      }
      const bool is_good = accepts(grammar, text);
      ASSERT_EQ(is_good, std::regex_match(text, other)) << regex << " " << text;
      n_good += is_good;
    }
  }
  EXPECT_GT(n_good, 50);
}

TEST(Regex, ErrorsSayWhatIsNotSupported) {
  const std::pair<const char*, const char*> cases[] = {{"a(?=b)", "at byte 3: looking ahead"},
                                                       {"(a)\\1", "'\\1' is not supported"},
                                                       {"\\bword", "'\\b' is not supported"},
                                                       {"(a", "')' is missing"},
                                                       {"a)", "closes nothing"},
                                                       {"*a", "repeat"},
                                                       {"a**", "repeat"},
                                                       {"[b-a]", "ends before"},
                                                       {"[a", "']' is missing"},
                                                       {"a^b", "'^' behind"},
                                                       {"(a$)*b", "within a repetition"},
                                                       {"\\p{Greek}", "\\p{Greek} is not"},
                                                       {"a{3,2}", "below the least"},
                                                       {"\\uD800", "half a pair"},
                                                       {"\xff", "no UTF-8"},
                                                       {"a\\", "at the end"},
                                                       {"[]", "No text fits"}};
  for (const auto& [regex, part] : cases) {
    const std::string error = error_of(regex, Format::kRegex);
    EXPECT_NE(error.find(part), std::string::npos) << regex << ": " << error;
  }
  EXPECT_NE(error_of(std::string(9000, '('), Format::kRegex).find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(65537, 'a'), Format::kRegex).find("at most 65536 are read"),
            std::string::npos);
}

std::string repeated_text(const std::string& part, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += part;
  return text;
}

// Work is counted also where it makes no expression: sets of characters that are looked at again,
// and characters of a class.
TEST(Regex, WorkWithoutExpressionsIsCounted) {
  CompileOptions options;
  options.limits.n_compile_steps = 30'000;
  EXPECT_THROW(compiled(repeated_text("\\p{L}", 100), Format::kRegex, options), TooMuchWork);
  EXPECT_THROW(compiled("[" + repeated_text("\\p{L}", 100) + "]", Format::kRegex, options),
               TooMuchWork);
  EXPECT_THROW(compiled("[" + repeated_text("ab", 20'000) + "]", Format::kRegex, options),
               TooMuchWork);
  // A pattern of a schema says no less that there was too much work.
  EXPECT_THROW(compiled(R"({"pattern":"[)" + repeated_text("ab", 20'000) + "]\"}",
                        Format::kJsonSchema, options),
               TooMuchWork);
  EXPECT_TRUE(
      accepts(compiled("[" + repeated_text("ab", 10'000) + "]", Format::kRegex, options), "b"));
}

}  // namespace
}  // namespace troika::grammar
