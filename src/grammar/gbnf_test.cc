#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/system.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

bool fits(std::string_view grammar, std::string_view text) {
  return accepts(compiled(grammar, Format::kGbnf), text);
}

TEST(Gbnf, LiteralsSetsGroupsAndRepetitions) {
  const char* const list = R"(
# A list of words.
root  ::= "[" word ("," " "? word)* "]"   # behind it nothing
word  ::= [a-c]+ | "x" [^a-c\]] {2,3} "!"
)";
  for (const char* const good : {"[a]", "[abc,b, cc]", "[xzz!]", "[xyz]!,a]", "[x中é!]"}) {
    const bool is_good = std::string_view(good) != "[xyz]!,a]";
    EXPECT_EQ(fits(list, good), is_good) << good;
  }
  for (const char* const bad :
       {"", "[", "[]", "[a,]", "[d]", "[xz!]", "[xzzzz!]", "[a]a", "[a,  b]"}) {
    EXPECT_FALSE(fits(list, bad)) << bad;
  }
}

TEST(Gbnf, RulesThatCallThemselves) {
  const char* const balanced = "root ::= \"(\" root* \")\" | \"[\" root \"]\"";
  EXPECT_TRUE(fits(balanced, "(()([()]))"));
  EXPECT_FALSE(fits(balanced, "(()([()])"));
  EXPECT_FALSE(fits(balanced, "([)]"));
  // The loop stands at the end, so that a text of any length has the same few states.
  const auto list = compiled("root ::= \"a\" | \"a,\" root", Format::kGbnf);
  std::string text = "a";
  for (int i = 0; i < 40; ++i) text += ",a";
  EXPECT_TRUE(accepts(list, text));
  const size_t n = list->n_expressions();
  for (int i = 0; i < 200; ++i) text += ",a";
  EXPECT_TRUE(accepts(list, text));
  EXPECT_EQ(list->n_expressions(), n);
}

TEST(Gbnf, RulesThatBeginWithThemselves) {
  const char* const sum = R"x(root ::= root "+" product | product
product ::= product "*" atom | atom
atom ::= [a-z] | "(" root ")")x";
  EXPECT_TRUE(fits(sum, "a+b*c+(d*e+f)*g"));
  EXPECT_FALSE(fits(sum, "a+b*+c"));
  EXPECT_FALSE(fits(sum, "a+(b"));
  const char* const around =
      "root ::= b \"x\" | \"r\"\nb ::= c \"y\" | root \"s\"\nc ::= root \"z\" | b";
  EXPECT_TRUE(fits(around, "r"));
  EXPECT_TRUE(fits(around, "rsx"));
  EXPECT_TRUE(fits(around, "rzyxsxzyx"));
  EXPECT_FALSE(fits(around, "rzx"));
  EXPECT_NE(
      error_of("root ::= \"a\"? root \"b\" | \"c\"", Format::kGbnf).find("begins with itself"),
      std::string::npos);
}

TEST(Gbnf, AmbiguousOnesStaySmall) {
  const auto grammar =
      compiled("root ::= \"if \" root (\" else \" root)? | \"x\" | root root", Format::kGbnf);
  std::string text;
  for (int i = 0; i < 12; ++i) text += "if ";
  text += "xx";
  for (int i = 0; i < 12; ++i) text += " else x";
  EXPECT_TRUE(accepts(grammar, text));
  EXPECT_FALSE(accepts(grammar, text + " else x"));
  EXPECT_LT(grammar->n_expressions(), 20'000u);
}

TEST(Gbnf, WhatNoTextFitsIsNeverBegun) {
  const auto grammar =
      compiled("root ::= \"a\" endless | \"ab\"\nendless ::= \"b\" endless", Format::kGbnf);
  Matcher matcher(grammar);
  EXPECT_EQ(matcher.forced(10), "ab");
  EXPECT_NE(error_of("root ::= \"a\" root", Format::kGbnf).find("No text fits"), std::string::npos);
}

TEST(Gbnf, ErrorsNameTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no rule 'root'"},
      {"root ::= \"a\nb\"", ""},
      {"root ::= \"a", "line 1, column 12: the grammar ends"},
      {"root = \"a\"", "'::=' is expected"},
      {"root ::= other", "line 1, column 10: there is no rule 'other'"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2"},
      {"root ::= (\"a\"", "')' is expected"},
      {"root ::= \"a\" )", "')' has no meaning"},
      {"root ::= \"a\"{3,2}", "fewer than the least"},
      {"root ::= \"a\"{9999999}", "at most 1000000"},
      {"root ::= [z-a]", "ends before it begins"},
      {"root ::= \"\\q\"", "escape has no meaning"},
      {"root ::= \"\\uD800\"", "none of a Unicode character"},
      {"root ::= <[17]>", "tokens (<...>) are not supported"},
      {"root ::= \"\xff\"", "no UTF-8"}};
  for (const auto& [text, part] : cases) {
    const std::string error = error_of(text, Format::kGbnf);
    EXPECT_EQ(error.empty(), *part == '\0') << text;
    EXPECT_NE(error.find(part), std::string::npos) << text << ": " << error;
  }
  EXPECT_NE(error_of("root ::= " + std::string(5000, '('), Format::kGbnf).find("nested too deeply"),
            std::string::npos);
}

// Steps that were forgotten because too many were kept are found again, so the same texts fit.
TEST(Gbnf, FewKeptStepsAllowTheSame) {
  const std::string text =
      "root ::= ([a-b]* \"a\" [a-b]{5} | \"c\" | list)* \"d\"\nlist ::= \"[\" (root \",\")* \"]\"";
  CompileOptions small;
  small.limits.table_bytes = 512;
  const auto few = compiled(text, Format::kGbnf, small), many = compiled(text, Format::kGbnf);
  uint32_t random = 7;
  for (int i = 0; i < 30; ++i) {
    const std::string fitting = random_text(many, &random, 60);
    EXPECT_TRUE(fitting.empty() || accepts(few, fitting)) << fitting;
    EXPECT_FALSE(accepts(few, fitting + "e"));
    EXPECT_EQ(accepts(few, fitting + "d"), accepts(many, fitting + "d"));
  }
}

TEST(Gbnf, LimitsEndInASentence) {
  CompileOptions small;
  small.limits.n_expressions = 2000;
  const std::string text = "root ::= ([a-b]* \"a\" [a-b]{12} | \"c\")* \"d\"";
  EXPECT_THROW(
      {
        const auto grammar = compiled(text, Format::kGbnf, small);
        uint32_t random = 1;
        for (int i = 0; i < 100; ++i) random_text(grammar, &random, 200);
      },
      Error);
  small.limits.n_compile_steps = 10'000;
  EXPECT_THROW(compiled("root ::= [" + std::string(20'000, 'a') + "]", Format::kGbnf, small),
               TooMuchWork);
  small.limits.n_text_bytes = 10;
  EXPECT_THROW(compiled(text, Format::kGbnf, small), Error);
}

// A rule that only calls another one is as good as that one: no step follows such calls.
TEST(Gbnf, RulesMayCallEachOtherInLongChains) {
  constexpr int kRules = 2000;  // more than the depth that recursion has
  std::string down = "root ::= r0\n", up = "r0 ::= \"x\"\n";
  for (int i = 1; i < kRules; ++i) {
    const std::string here = "r" + std::to_string(i), before = "r" + std::to_string(i - 1);
    down += before + " ::= " + here + "\n";
    up += here + " ::= " + before + "\n";
  }
  const std::string last = "r" + std::to_string(kRules - 1);
  for (const std::string& chain : {down + last + " ::= \"x\"\n", up + "root ::= " + last + "\n"}) {
    const auto grammar = compiled(chain, Format::kGbnf);
    EXPECT_TRUE(accepts(grammar, "x"));
    EXPECT_FALSE(accepts(grammar, "y"));
  }
}

// Rules that begin with each other are rewritten in a table of all pairs. That is work, and it is
// counted before the table takes its 1.6 GB of memory.
TEST(Gbnf, CyclesOfManyRulesAreCounted) {
  std::string ways = "root ::= \"x\"", rules;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "r" + std::to_string(i);
    ways += " | " + name;
    rules += name + " ::= root \"" + std::to_string(i) + "\"\n";
  }
  const size_t most = std::max(peak_resident_bytes(), resident_bytes() + (size_t{1} << 30));
  EXPECT_THROW(compiled(ways + "\n" + rules, Format::kGbnf), TooMuchWork);
  EXPECT_LE(peak_resident_bytes(), most);
}

// Returns a rule with n more in a chain that leads back to it.
std::string chain_of_rules(int n, const std::string& root) {
  std::string text = "root ::= r0 \"a\" | \"z\"" + root + "\n";
  for (int i = 0; i < n; ++i) {
    const std::string next = i + 1 < n ? "r" + std::to_string(i + 1) : "root";
    text += "r" + std::to_string(i) + " ::= " + next + " \"b\" | \"x\"\n";
  }
  return text;
}

// Rules that lead round in a chain leave most of that table empty, and what is empty is no work.
TEST(Gbnf, CyclesOfOneLongChainAreQuick) {
  constexpr int kRules = 600;
  CompileOptions options;
  options.limits.n_compile_steps = 1'200'000;
  const auto chain = compiled(chain_of_rules(kRules, ""), Format::kGbnf, options);
  EXPECT_TRUE(accepts(chain, "xbbba"));
  EXPECT_TRUE(accepts(chain, "z" + std::string(kRules, 'b') + "a"));
  EXPECT_FALSE(accepts(chain, "z" + std::string(kRules - 1, 'b') + "a"));
}

// What follows each rule that a body begins with is found by walking the body again.
TEST(Gbnf, BodiesThatBeginWithManyRulesOfTheirCycleAreCounted) {
  constexpr int kRules = 300;
  std::string ways, others;
  for (int i = 0; i < kRules; ++i) ways += " | r" + std::to_string(i);
  for (int i = 0; i < 3000; ++i) {
    ways += " | q" + std::to_string(i) + " \"c\"";
    others += "q" + std::to_string(i) + " ::= \"" + std::to_string(i) + "\"\n";
  }
  CompileOptions options;
  options.limits.n_compile_steps = 800'000;
  EXPECT_THROW(compiled(chain_of_rules(kRules, ways) + others, Format::kGbnf, options),
               TooMuchWork);
}

// With which rules a body may begin is kept for no part of it: of each of these bodies the parts
// begin with 700 rules, 699, 698 and so on.
TEST(Gbnf, LongRowsOfOptionalRulesTakeLittleMemory) {
  constexpr int kRules = 700, kBodies = 60;
  std::string text = "root ::=";
  for (int body = 0; body < kBodies; ++body) {
    text += (body == 0 ? " b" : " | b") + std::to_string(body);
  }
  for (int body = 0; body < kBodies; ++body) {
    text += "\nb" + std::to_string(body) + " ::=";
    // Another multiple modulo a prime gives the rules another order.
    for (int i = 1; i <= kRules; ++i) {
      text += " r" + std::to_string(i * (body + 1) % (kRules + 1) - 1) + "?";
    }
  }
  for (int i = 0; i < kRules; ++i) {
    text += "\nr" + std::to_string(i) + " ::= \"" + std::to_string(i) + "\"";
  }
  const size_t most = std::max(peak_resident_bytes(), resident_bytes() + (size_t{128} << 20));
  compiled(text, Format::kGbnf);
  EXPECT_LE(peak_resident_bytes(), most);
}

// Looking for a set among those of the same hash is work, and all of these have the same one.
TEST(Gbnf, SetsOfTheSameHashAreCounted) {
  std::string text = "root ::=";
  for (uint64_t i = 1; i <= 3000; ++i) {
    const uint64_t low = i << 33;
    const uint64_t product = low * 0x9e3779b97f4a7c15u;
    const uint64_t words[] = {low, product ^ product >> 29};
    text += " [";
    for (int byte = 0; byte < 128; ++byte) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      if ((words[byte / 64] >> byte % 64 & 1) == 0) continue;
      text += std::string("\\x") + kDigits[static_cast<size_t>(byte / 16)] +
              kDigits[static_cast<size_t>(byte % 16)];
    }
    text += "]";
  }
  CompileOptions options;
  options.limits.n_compile_steps = 1'500'000;
  EXPECT_THROW(compiled(text, Format::kGbnf, options), TooMuchWork);
}

TEST(Gbnf, BytesAreDividedInACountedNumberOfWays) {
  CompileOptions options;
  options.limits.n_partitions = 3;
  const char* const text = "root ::= \"a\" [b-d] | \"e\" [f-h] | \"i\" [j-l]";
  EXPECT_TRUE(accepts(compiled(text, Format::kGbnf), "eg"));
  try {
    reads(compiled(text, Format::kGbnf, options), "eg");
    FAIL() << "each set divides bytes in its own way";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tells bytes apart"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace troika::grammar
