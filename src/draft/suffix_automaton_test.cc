#include "draft/suffix_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"

namespace troika::draft {
namespace {

using Text = std::vector<Token>;

Text random_text(uint64_t seed, int n, int n_symbols) {
  Text text;
  for (int i = 0; i < n; ++i) {
    text.push_back(static_cast<Token>(random_unit(seed, static_cast<uint64_t>(i)) * n_symbols));
  }
  return text;
}

// Returns where `part` ends in the text.
std::set<size_t> ends_of(const Text& text, const Text& part) {
  std::set<size_t> ends;
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), part.begin(), part.end());
    if (at == text.end()) break;
    ends.insert(static_cast<size_t>(at - text.begin()) + part.size());
  }
  return ends;
}

SuffixAutomaton::State state_of(const SuffixAutomaton& automaton, const Text& part) {
  SuffixAutomaton::State state = SuffixAutomaton::kStart;
  for (const Token token : part) {
    if (state == SuffixAutomaton::kNoState) break;
    state = automaton.next(state, token);
  }
  return state;
}

class OfSymbols : public testing::TestWithParam<int> {};

// After every token, the test compares the automaton with a search through the text.
TEST_P(OfSymbols, KnowsTheLongestSuffixThatOccurredBefore) {
  const Text text = random_text(7, 120, GetParam());
  SuffixAutomaton automaton;
  Text so_far;
  for (const Token token : text) {
    automaton.append(token);
    so_far.push_back(token);
    size_t longest = 0;
    for (size_t n = so_far.size() - 1; n > 0 && longest == 0; --n) {
      if (ends_of(so_far, Text(so_far.end() - static_cast<ptrdiff_t>(n), so_far.end())).size() >
          1) {
        longest = n;
      }
    }
    EXPECT_EQ(automaton.length(automaton.link(automaton.last())), static_cast<int>(longest));
    EXPECT_EQ(automaton.length(automaton.last()), static_cast<int>(so_far.size()));
  }
}

TEST_P(OfSymbols, KnowsEverySubstringAndWhatFollowedIt) {
  const Text text = random_text(11, 90, GetParam());
  SuffixAutomaton automaton;
  for (const Token token : text) automaton.append(token);
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t n = 1; n <= 6 && begin + n <= text.size(); ++n) {
      const Text part(text.begin() + static_cast<ptrdiff_t>(begin),
                      text.begin() + static_cast<ptrdiff_t>(begin + n));
      const SuffixAutomaton::State state = state_of(automaton, part);
      ASSERT_NE(state, SuffixAutomaton::kNoState);
      const std::set<size_t> ends = ends_of(text, part);
      EXPECT_EQ(automaton.count(state), static_cast<int>(ends.size()));
      std::set<Token> followers, found;
      for (const size_t end : ends) {
        if (end < text.size()) followers.insert(text[end]);
      }
      automaton.for_each_next(state, 1000,
                              [&](Token token, SuffixAutomaton::State) { found.insert(token); });
      EXPECT_EQ(found, followers);
    }
  }
  EXPECT_EQ(state_of(automaton, {Token{GetParam()}}), SuffixAutomaton::kNoState);
}

INSTANTIATE_TEST_SUITE_P(Few, OfSymbols, testing::Values(2, 3, 12, 60));

TEST(SuffixAutomaton, TextsDoNotReachAcross) {
  SuffixAutomaton automaton;
  for (const Token token : {1, 2, 3, 4}) automaton.append(token);
  automaton.begin_text();
  for (const Token token : {2, 3, 5}) automaton.append(token);
  automaton.begin_text();
  for (const Token token : {1, 2, 3, 4}) automaton.append(token);
  EXPECT_NE(state_of(automaton, {2, 3, 5}), SuffixAutomaton::kNoState);
  EXPECT_EQ(state_of(automaton, {4, 2}), SuffixAutomaton::kNoState);
  EXPECT_EQ(state_of(automaton, {5, 1}), SuffixAutomaton::kNoState);
  EXPECT_EQ(automaton.count(state_of(automaton, {2, 3})), 3);
  EXPECT_EQ(automaton.count(state_of(automaton, {1, 2, 3, 4})), 2);
  EXPECT_EQ(automaton.count(state_of(automaton, {2, 3, 5})), 1);
}

// The total of edges bounds the time for any text.
TEST(SuffixAutomaton, StaysSmallOnTextsThatRepeatThemselves) {
  SuffixAutomaton automaton;
  constexpr int kTokens = 20000;
  for (int i = 0; i < kTokens; ++i) automaton.append(i % 2 == 0 ? 1 : i % 700);
  EXPECT_LE(automaton.bytes(), size_t{400} * kTokens);
  automaton.clear();
  for (int i = 0; i < kTokens; ++i) automaton.append(3);
  EXPECT_EQ(automaton.length(automaton.link(automaton.last())), kTokens - 1);
}

}  // namespace
}  // namespace troika::draft
