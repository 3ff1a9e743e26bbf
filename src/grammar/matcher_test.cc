#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

// Is a grammar of everything that compact JSON can say.
constexpr const char* kJson = R"(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (member ("," member)*)? "}"
member ::= string ":" value
array ::= "[" (value ("," value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
)";

TEST(Matcher, MasksAreWhatEachTokenSays) {
  const auto json = compiled(kJson, Format::kGbnf);
  EXPECT_TRUE(accepts(json, R"({"name":["abc\"é中",-12.5e3,{"":null}],"b":[]})"));
  EXPECT_FALSE(accepts(json, R"({"name":[abc]})"));
  uint32_t random = 3;
  int n_ended = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string text = random_text(json, &random, 40);
    if (text.empty()) continue;
    ++n_ended;
    EXPECT_TRUE(accepts(json, text)) << text;
  }
  EXPECT_GT(n_ended, 5);
}

// Random steps forward and back lead to the masks of the direct way.
TEST(Matcher, ComesBackFromAnywhere) {
  const auto json = compiled(kJson, Format::kGbnf);
  uint32_t random = 11;
  Matcher wanderer(json);
  std::vector<Token> path;
  for (int i = 0; i < 400; ++i) {
    TokenSet set;
    wanderer.allowed(&set);
    if (set.size() == 0 || path.size() > 30 || next_random(&random, 4) == 0) {
      const uint32_t n = next_random(&random, static_cast<uint32_t>(path.size()) + 1);
      wanderer.back(static_cast<int>(n));
      path.resize(path.size() - n);
    } else {
      auto token = static_cast<Token>(next_random(&random, static_cast<uint32_t>(set.n_tokens())));
      while (!set.has(token)) token = (token + 1) % set.n_tokens();
      ASSERT_TRUE(wanderer.advance(token));
      path.push_back(token);
    }
    Matcher direct(compiled(kJson, Format::kGbnf));
    for (const Token token : path) ASSERT_TRUE(direct.advance(token));
    TokenSet there, here;
    direct.allowed(&there);
    wanderer.allowed(&here);
    ASSERT_TRUE(there == here);
    ASSERT_EQ(direct.may_end(), wanderer.may_end());
    ASSERT_EQ(direct.forced(20), wanderer.forced(20));
  }
}

TEST(Matcher, EndsOnlyWhereItMay) {
  Matcher matcher(compiled("root ::= \"ab\" \"c\"?", Format::kGbnf));
  constexpr Token kEnd = 2;
  EXPECT_FALSE(matcher.advance(kEnd));
  EXPECT_EQ(matcher.forced(64), "ab");
  EXPECT_EQ(matcher.forced(1), "a");
  std::vector<Token> tokens;
  matcher.grammar().tokens().write("abc", &tokens);
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(matcher.grammar().tokens().bytes(tokens[0]), "abc");
  ASSERT_TRUE(matcher.advance(3 + 'a'));
  ASSERT_TRUE(matcher.advance(3 + 'b'));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_EQ(matcher.forced(64), "");
  ASSERT_TRUE(matcher.advance(kEnd));
  EXPECT_FALSE(matcher.may_end());
  TokenSet set;
  matcher.allowed(&set);
  EXPECT_EQ(set.size(), 0);
  EXPECT_FALSE(matcher.advance(3 + 'c'));
  EXPECT_FALSE(matcher.advance(kEnd));
  matcher.back(2);
  EXPECT_FALSE(matcher.may_end());
  EXPECT_FALSE(matcher.advance(0));  // is <unk>
  EXPECT_FALSE(matcher.advance(-1));
  EXPECT_FALSE(matcher.advance(1 << 20));
  EXPECT_TRUE(matcher.advance(3 + 'b'));
}

// A matcher in a hurry stops where work is too much, and goes on from there when it has time.
TEST(Matcher, InAHurryDoesLittleAndWaitsForNobody) {
  const auto json = compiled(kJson, Format::kGbnf);
  Matcher patient(json), hurried(json);
  hurried.hurry(3);
  TokenSet set, all;
  EXPECT_THROW(hurried.allowed(&set), TooMuchWork);
  patient.allowed(&all);
  hurried.allowed(&set);  // takes no work, because the mask is known
  EXPECT_TRUE(set == all);
  Matcher unhurried = hurried;
  unhurried.take_time();
  ASSERT_TRUE(unhurried.advance(3 + '['));
  unhurried.allowed(&all);
  ASSERT_TRUE(hurried.advance(3 + '['));
  hurried.allowed(&set);
  EXPECT_TRUE(set == all);
}

// While a slow mask is made for somebody, a matcher in a hurry gives up its turn.
// What is wrong shows only while an answer is written, and is wrong with the grammar all the same.
TEST(Matcher, SaysOfTextsThatAreTooMuchAlikeThatTheGrammarIsTooLarge) {
  const std::string before(60, 'a'), alike(2000, 'k');
  const auto grammar = compiled("root ::= \"" + before + "\" (x \"1\" | y \"2\")\nx ::= \"" +
                                    alike + "\"\ny ::= \"" + alike + "z\"\n",
                                Format::kGbnf);
  EXPECT_THROW((void)reads(grammar, before + alike), TooLarge);
}

TEST(Matcher, InAHurryWaitsForNoOtherMatcher) {
  bool gave_up = false;
  for (int i = 0; i < 5 && !gave_up; ++i) {
    const std::string schema = R"({"type":"string","allOf":[{"pattern":"^x(b|a(.{17})+)$"},)"
                               R"({"pattern":"^x(b|a(.{19})+)$"},{"pattern":"^x(b|a(.{)" +
                               std::to_string(21 + i) + R"(})+)$"}]})";
    const auto grammar = compiled(schema, Format::kJsonSchema);
    Matcher patient(grammar), hurried(grammar);
    hurried.hurry(~uint64_t{0});
    for (const char c : {'"', 'x'}) ASSERT_TRUE(patient.advance(3 + c));
    ASSERT_TRUE(hurried.advance(3 + '"'));
    std::atomic<bool> is_done = false;
    std::thread slow([&] {
      TokenSet set;
      patient.allowed(&set);
      is_done.store(true);
    });
    while (!gave_up && !is_done.load()) {
      try {
        ASSERT_TRUE(hurried.advance(3 + 'x'));
        hurried.back(1);
      } catch (const TooMuchWork&) {
        gave_up = true;
      }
    }
    slow.join();
    EXPECT_TRUE(hurried.advance(3 + 'x'));  // nothing of it was lost
  }
  EXPECT_TRUE(gave_up);
}

// A mask that is made again after all masks were given up is the same.
TEST(Matcher, MasksAreTheSameWithoutRoomToKeepThem) {
  CompileOptions none;
  none.limits.mask_bytes = 0;
  EXPECT_TRUE(accepts(compiled(kJson, Format::kGbnf, none), R"({"name":["abc"]})"));
}

}  // namespace
}  // namespace troika::grammar
