#include "server/desk/grammars.h"

#include <gtest/gtest.h>

#include "grammar/made_up_vocabulary_test_support.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace troika::server {
namespace {

std::unique_ptr<text::Tokenizer> bytes_alone() {
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>", "a"};
  v.types = {text::TokenType::kUnknown, text::TokenType::kControl, text::TokenType::kControl,
             text::TokenType::kNormal};
  v.scores.assign(v.tokens.size(), 0.0f);
  v.eos = grammar::kMadeUpEnd;
  return text::make_tokenizer(v);
}

std::shared_ptr<grammar::Grammar> one_letter(std::shared_ptr<const grammar::TokenTrie> tokens,
                                             const grammar::Limits& limits) {
  return grammar::compile("a", grammar::Format::kRegex, std::move(tokens), {.limits = limits});
}

// A grammar that takes long to make. It counts how often it was made.
struct Slow {
  int n_made = 0;
  Grammars::Make make = [this](std::shared_ptr<const grammar::TokenTrie> tokens,
                               const grammar::Limits& limits) {
    if (limits.n_compile_steps < grammar::Limits().n_compile_steps) {
      throw grammar::TooMuchWork("It takes more steps.");
    }
    ++n_made;
    return one_letter(std::move(tokens), limits);
  };
};

void flood(Grammars& grammars, const std::string& name) {
  for (int i = 0; i < 100; ++i) grammars.find(name + std::to_string(i), false, one_letter);
}

Grammars::TakesLonger wanted_of(Grammars& grammars, const Slow& slow) {
  try {
    grammars.find("slow", false, slow.make);
  } catch (const Grammars::TakesLonger& wanted) {
    return wanted;
  }
  ADD_FAILURE() << "it was made at once";
  return {};
}

TEST(Grammars, KeepsWhatARequestWaitsForBesideAFloodOfOthers) {
  const auto tokenizer = bytes_alone();
  Grammars grammars(*tokenizer);
  Slow slow;
  Grammars::KeptPtr held = grammars.make(wanted_of(grammars, slow));
  flood(grammars, "a");
  EXPECT_EQ(grammars.find("slow", false, slow.make), held->grammar);
  EXPECT_EQ(slow.n_made, 1);
  held.reset();
  flood(grammars, "b");
  wanted_of(grammars, slow);  // must make the grammar again, because only a limited number is kept
}

TEST(Grammars, KeepsNoMoreBytesThanItMay) {
  const auto tokenizer = bytes_alone();
  for (const size_t most_bytes : {size_t{0}, size_t{1} << 20}) {
    Grammars grammars(*tokenizer, most_bytes);
    int n_made = 0;
    const Grammars::Make make = [&](auto tokens, const grammar::Limits& limits) {
      ++n_made;
      return one_letter(std::move(tokens), limits);
    };
    for (const char* key : {"one", "two", "one", "two"}) grammars.find(key, false, make);
    EXPECT_EQ(n_made, most_bytes == 0 ? 4 : 2);
    // One that an answer follows takes no memory by being kept.
    const auto followed = grammars.find("one", false, make);
    n_made = 0;
    grammars.find("two", false, make);
    EXPECT_EQ(grammars.find("one", false, make), followed);
  }
}

// What answers find out about a grammar takes expressions of it for good. Later answers must not
// end because of that.
TEST(Grammars, MakesAnewWhatAnswersHaveWorn) {
  const auto tokenizer = bytes_alone();
  Grammars grammars(*tokenizer);
  const Grammars::Make make = [](auto tokens, grammar::Limits limits) {
    limits.n_expressions = 2000;
    return grammar::compile("root ::= \"a\" root \"b\" | \"c\"", grammar::Format::kGbnf,
                            std::move(tokens), {.limits = limits});
  };
  const auto first = grammars.find("nested", false, make);
  EXPECT_EQ(grammars.find("nested", false, make), first);
  grammar::Matcher matcher(first);
  constexpr text::Token kLetterA = 3;
  int n_nested = 0;
  while (!first->is_worn() && matcher.advance(kLetterA)) ++n_nested;
  EXPECT_TRUE(first->is_worn());
  const auto second = grammars.find("nested", false, make);
  EXPECT_NE(second, first);
  EXPECT_FALSE(second->is_worn());
  grammar::Matcher other(second);
  for (int i = 0; i < n_nested; ++i) ASSERT_TRUE(other.advance(kLetterA)) << i;
  // Whoever follows the worn one goes on.
  EXPECT_TRUE(matcher.advance(kLetterA));
}

}  // namespace
}  // namespace troika::server
