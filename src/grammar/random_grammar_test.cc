// Random grammars are judged by a recogniser that shares no code with the room: it fills a table of
// which part of a text each part of the grammar fits, until nothing is added.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

struct RandomExpr {
  enum Kind { kLetter, kCall, kSequence, kChoice, kStar, kNothing } kind;
  char letter = 0;
  int rule = 0;
  std::vector<RandomExpr> parts{};
};

constexpr int kRules = 3;
constexpr const char* kNames[kRules] = {"root", "one", "two"};

RandomExpr random_expr(uint32_t* random, int depth) {
  const uint32_t kind = next_random(random, depth > 0 ? 9 : 4);
  if (kind < 3) return {RandomExpr::kLetter, static_cast<char>('a' + next_random(random, 3))};
  if (kind == 3) return {RandomExpr::kCall, 0, static_cast<int>(next_random(random, kRules))};
  if (kind == 8 && next_random(random, 3) == 0) return {RandomExpr::kNothing};
  RandomExpr part{kind < 6   ? RandomExpr::kSequence
                  : kind < 8 ? RandomExpr::kChoice
                             : RandomExpr::kStar};
  const uint32_t n = part.kind == RandomExpr::kStar ? 1 : 2 + next_random(random, 2);
  for (uint32_t i = 0; i < n; ++i) part.parts.push_back(random_expr(random, depth - 1));
  return part;
}

std::string written(const RandomExpr& part) {
  switch (part.kind) {
    case RandomExpr::kLetter:
      return std::string("\"") + part.letter + "\"";
    case RandomExpr::kCall:
      return kNames[part.rule];
    case RandomExpr::kNothing:
      return "\"\"";
    case RandomExpr::kStar:
      return "(" + written(part.parts[0]) + ")*";
    default:
      break;
  }
  std::string text;
  for (const RandomExpr& p : part.parts) {
    if (!text.empty()) text += part.kind == RandomExpr::kChoice ? " | " : " ";
    text += written(p);
  }
  return "(" + text + ")";
}

// Maps a rule and a place in the text to the places where the rule may end, as far as is known so
// far.
using Ends = std::map<std::pair<int, size_t>, std::set<size_t>>;

std::set<size_t> ends_of(const RandomExpr& part, const std::string& text, size_t from,
                         const Ends& rules) {
  std::set<size_t> ends;
  switch (part.kind) {
    case RandomExpr::kLetter:
      if (from < text.size() && text[from] == part.letter) ends.insert(from + 1);
      break;
    case RandomExpr::kCall: {
      const auto found = rules.find({part.rule, from});
      if (found != rules.end()) ends = found->second;
      break;
    }
    case RandomExpr::kNothing:
      ends.insert(from);
      break;
    case RandomExpr::kChoice:
      for (const RandomExpr& p : part.parts) ends.merge(ends_of(p, text, from, rules));
      break;
    case RandomExpr::kSequence: {
      ends = {from};
      for (const RandomExpr& p : part.parts) {
        std::set<size_t> next;
        for (const size_t end : ends) next.merge(ends_of(p, text, end, rules));
        ends = next;
      }
      break;
    }
    case RandomExpr::kStar: {
      std::set<size_t> open = {from};
      while (!open.empty()) {
        std::set<size_t> next;
        for (const size_t end : open) next.merge(ends_of(part.parts[0], text, end, rules));
        ends.insert(open.begin(), open.end());
        open.clear();
        for (const size_t end : next) {
          if (ends.count(end) == 0) open.insert(end);
        }
      }
      break;
    }
  }
  return ends;
}

bool recognised(const std::vector<RandomExpr>& rules, const std::string& text) {
  Ends known;
  for (size_t n = 1; n > 0;) {
    n = 0;
    for (int rule = 0; rule < kRules; ++rule) {
      for (size_t from = 0; from <= text.size(); ++from) {
        std::set<size_t>& ends = known[{rule, from}];
        const size_t before = ends.size();
        ends.merge(ends_of(rules[static_cast<size_t>(rule)], text, from, known));
        n += ends.size() - before;
      }
    }
  }
  return known[{0, 0}].count(text.size()) > 0;
}

TEST(RandomGrammars, AcceptWhatARecogniserAccepts) {
  uint32_t random = 7;
  int n_accepted = 0, n_refused = 0, n_compiled = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<RandomExpr> rules;
    std::string gbnf;
    for (int rule = 0; rule < kRules; ++rule) {
      rules.push_back(random_expr(&random, 3));
      gbnf += std::string(kNames[rule]) + " ::= " + written(rules.back()) + "\n";
    }
    std::shared_ptr<Grammar> grammar;
    try {
      grammar = compiled(gbnf, Format::kGbnf);
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.find("begins with itself") != std::string::npos ||
                  what.find("No text fits") != std::string::npos)
          << what;
      continue;
    }
    ++n_compiled;
    for (int j = 0; j < 12; ++j) {
      std::string text;
      const uint32_t n = next_random(&random, 9);
      for (uint32_t k = 0; k < n; ++k) text += static_cast<char>('a' + next_random(&random, 3));
      const bool is_accepted = accepts(grammar, text);
      ASSERT_EQ(is_accepted, recognised(rules, text)) << gbnf << text;
      (is_accepted ? n_accepted : n_refused)++;
    }
    const std::string text = random_text(grammar, &random, 12);
    if (!text.empty()) {
      ASSERT_TRUE(recognised(rules, text)) << gbnf << text;
    }
  }
  EXPECT_GT(n_compiled, 100);
  EXPECT_GT(n_accepted, 100);
  EXPECT_GT(n_refused, 100);
}

}  // namespace
}  // namespace troika::grammar
