#include <fmt/format.h>
#include <gtest/gtest.h>

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

std::string random_regex(int depth, uint32_t* random) {
  const char* const atoms[] = {"a", "b", "[ab]", "[^a]", ".", "c"};
  if (depth == 0) return atoms[next_random(random, 6)];
  const auto part = [&] { return random_regex(depth - 1, random); };
  const char* const counts[] = {"*", "?", "+", "{1,2}", "{2,3}", "{2}", "{0,2}"};
  switch (next_random(random, 5)) {
    case 0:
      return "(" + part() + "|" + part() + ")";
    case 1:
    case 2:
      return "(" + part() + ")" + counts[next_random(random, 7)];
    default:
      return part() + part();
  }
}

std::string random_text(uint32_t* random) {
  std::string text;
  for (uint32_t n = next_random(random, 8); n > 0; --n) {
    text += static_cast<char>('a' + next_random(random, 3));
  }
  return text;
}

// Random regular expressions accept the texts that those of the standard library accept.
TEST(Regex, AgreesWithAnotherImplementation) {
  uint32_t random = 5;
  int n_good = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string regex = random_regex(3, &random);
    const auto grammar = compiled(regex, Format::kRegex);
    const std::regex other(regex);
    for (int j = 0; j < 8; ++j) {
      const std::string text = random_text(&random);
      const bool is_good = accepts(grammar, text);
      ASSERT_EQ(is_good, std::regex_match(text, other)) << regex << " " << text;
      n_good += is_good;
    }
  }
  EXPECT_GT(n_good, 50);
}

// A pattern of a schema may stand anywhere in a text, unless anchors hold it.
TEST(Regex, PatternsAreFoundWhereAnotherImplementationFindsThem) {
  uint32_t random = 6;
  int n_good = 0, n_bad = 0;
  for (int i = 0; i < 300; ++i) {
    std::string regex = random_regex(3, &random);
    if (next_random(&random, 3) == 0) regex.insert(0, "^");
    if (next_random(&random, 3) == 0) regex += "$";
    if (next_random(&random, 4) == 0) regex = "(" + regex + ")|^" + random_regex(1, &random);
    const auto grammar =
        compiled(R"({"type":"string","pattern":")" + regex + "\"}", Format::kJsonSchema);
    const std::regex other(regex);
    for (int j = 0; j < 8; ++j) {
      const std::string text = random_text(&random);
      const bool is_good = accepts(grammar, '"' + text + '"');
      ASSERT_EQ(is_good, std::regex_search(text, other)) << regex << " " << text;
      ++(is_good ? n_good : n_bad);
    }
  }
  EXPECT_GT(n_good, 500);
  EXPECT_GT(n_bad, 200);
}

// Generators of schemas write what looks ahead at the start of patterns.
TEST(Regex, WhatLooksAheadAtTheStartHoldsBesidesTheRest) {
  uint32_t random = 7;
  int n_good = 0, n_bad = 0;
  const char* const looks[] = {"(?!", "(?=", "(?!^", "(?=.*", "(?!.*"};
  for (int i = 0; i < 300; ++i) {
    std::string regex = "^";
    for (uint32_t n = 1 + next_random(&random, 2); n > 0; --n) {
      regex += looks[next_random(&random, 5)] + random_regex(2, &random);
      regex += next_random(&random, 3) == 0 ? "$)" : ")";
    }
    regex += random_regex(3, &random);
    if (next_random(&random, 2) == 0) regex += "$";
    if (next_random(&random, 4) == 0) regex = "(" + regex + "|^b)";
    // No text may fit the expression, which is an error where nothing else fits.
    const auto searched =
        compiled(R"({"anyOf":[{"type":"null"},{"type":"string","pattern":")" + regex + "\"}]}",
                 Format::kJsonSchema);
    const auto whole = compiled(regex + "|", Format::kRegex);
    const std::regex other(regex), other_whole(regex + "|");
    for (int j = 0; j < 8; ++j) {
      const std::string text = random_text(&random);
      const bool is_good = accepts(searched, '"' + text + '"');
      ASSERT_EQ(is_good, std::regex_search(text, other)) << regex << " " << text;
      ASSERT_EQ(accepts(whole, text), std::regex_match(text, other_whole)) << regex << " " << text;
      ++(is_good ? n_good : n_bad);
    }
  }
  EXPECT_GT(n_good, 200);
  EXPECT_GT(n_bad, 200);
}

TEST(Regex, PatternsOfOtherGeneratorsAreRead) {
  const auto check = [](const std::string& pattern, std::vector<std::string> good,
                        std::vector<std::string> bad) {
    std::string escaped;
    for (const char c : pattern) escaped += c == '\\' ? "\\\\" : std::string(1, c);
    const auto grammar =
        compiled(R"({"type":"string","pattern":")" + escaped + "\"}", Format::kJsonSchema);
    for (const std::string& text : good) EXPECT_TRUE(accepts(grammar, '"' + text + '"')) << text;
    for (const std::string& text : bad) EXPECT_FALSE(accepts(grammar, '"' + text + '"')) << text;
  };
  // A number with a sign that is not a sign alone; an address without two dots in a row; and a
  // word with a letter and a digit.
  check(R"(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)", {"1", "-0.5", "+.5", "007."},
        {"", "-", ".", "+.", "x"});
  check(
      R"(^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$)",
      {"a.b@c.de", "x@y.z.com"}, {".a@b.cd", "a..b@c.de", "a@b", "a.@b.cd"});
  check(R"(^(?=.*[a-z])(?=.*[0-9]).{3,5}$)", {"ab1", "1a2b3"}, {"abc", "123", "a1", "abc123"});
}

// Where any text may follow, nobody counts how often something is repeated.
TEST(Regex, RepetitionsBesideAnyTextAreNotCounted) {
  CompileOptions options;
  options.limits.n_expressions = 1000;
  const std::string text = '"' + std::string(300, 'a') + "b\"";
  for (const char* const pattern : {"[a-z]{1,255}", "^[a-z]{2,255}", "[a-z]{1,255}x{0,9}",
                                    "-?([a-z]{1,255}b|c)", "(a{1,255}|b{3,300})+"}) {
    const auto grammar = compiled(fmt::format(R"({{"type":"string","pattern":"{}"}})", pattern),
                                  Format::kJsonSchema, options);
    EXPECT_TRUE(accepts(grammar, text)) << pattern;
  }
}

TEST(Regex, ErrorsSayWhatIsNotSupported) {
  const std::pair<const char*, const char*> cases[] = {
      {"a(?=b)", "looking ahead is supported at the start"},
      {"(?:(?!a))*", "within a repetition"},
      {"(?!a)*b", "is not repeated"},
      {"(?<=a)b", "looking behind"},
      {"(?=a", "')' is missing"},
      {"(a)\\1", "'\\1' is not supported"},
      {"\\bword", "'\\b' is not supported"},
      {"(a", "')' is missing"},
      {"a)", "closes nothing"},
      {"*a", "repeat"},
      {"a**", "repeat"},
      {"a{2}{3}", "repeat"},
      {"{2}a", "repeat"},
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
  // Parts within repetitions are asked for again at each level, and empty parts are work too.
  const auto nested = [](const std::string& inner) {
    return repeated_text("(", 190) + inner + repeated_text("){2}", 190);
  };
  for (const std::string& hostile :
       {"(^" + repeated_text("|", 30'000) + ")" + nested(repeated_text("()", 15'000)),
        nested(repeated_text("|", 60'000)), repeated_text("()", 30'000),
        repeated_text("(a?)", 15'000), repeated_text("(^|a)", 900) + repeated_text("a", 30'000)}) {
    EXPECT_THROW(compiled(R"({"pattern":")" + hostile + "\"}", Format::kJsonSchema, options),
                 TooMuchWork)
        << hostile.substr(0, 20);
  }
  EXPECT_TRUE(
      accepts(compiled("[" + repeated_text("ab", 10'000) + "]", Format::kRegex, options), "b"));
}

}  // namespace
}  // namespace troika::grammar
