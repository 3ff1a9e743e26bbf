#include "draft/sam.h"

#include <algorithm>

namespace troika::draft {
namespace {

// At most this many different followers of one suffix are looked at.
constexpr int kMostFollowers = 12;
// At most this many suffixes of the text are followed: the longest one, then shorter ones.
constexpr int kMostSuffixes = 3;
// A less likely guess costs more than it gives, at any width.
constexpr float kLeastChainChance = 0.01f;

// Returns the weight, for each known follower of a match, of followers that are not known: long
// matches hardly ever go on in a new way.
float escape_weight(int matched) { return 1.0f / (1.0f + 0.5f * static_cast<float>(matched)); }

}  // namespace

float SuffixGrower::push_followers(const SuffixAutomaton& automaton, SuffixAutomaton::State state,
                                   int matched, int parent, float path_chance, float share) {
  int n_followers = 0, n_occurrences = 0;
  automaton.for_each_next(state, kMostFollowers, [&](Token, SuffixAutomaton::State next) {
    ++n_followers;
    n_occurrences += automaton.count(next);
  });
  if (n_followers == 0) return share;
  const float escapes = static_cast<float>(n_followers) * escape_weight(matched);
  const float unit = share / (static_cast<float>(n_occurrences) + escapes);
  automaton.for_each_next(state, kMostFollowers, [&](Token token, SuffixAutomaton::State next) {
    const float chance = unit * static_cast<float>(automaton.count(next));
    if (path_chance * chance < kLeastChainChance) return;
    heap_.push_back({path_chance * chance, chance, parent, token, next, matched + 1});
    std::push_heap(heap_.begin(), heap_.end());
  });
  return unit * escapes;
}

void SuffixGrower::reserve(int most_nodes) {
  heap_.reserve(static_cast<size_t>(kMostFollowers) *
                static_cast<size_t>(most_nodes + kMostSuffixes));
}

void SuffixGrower::grow(const SuffixAutomaton& automaton, SuffixAutomaton::State state, int matched,
                        int most, Tree* tree) {
  heap_.clear();
  float share = 1.0f;
  for (int i = 0; i < kMostSuffixes && state != SuffixAutomaton::kNoState && matched > 0; ++i) {
    share = push_followers(automaton, state, matched, kRoot, 1.0f, share);
    state = automaton.link(state);
    if (state != SuffixAutomaton::kNoState) matched = automaton.length(state);
  }
  while (!heap_.empty() && tree->size() < most) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    const bool is_new = tree->child(best.parent, best.token) == Tree::kNoNode;
    const int node = tree->add(best.parent, best.token, best.chance);
    if (is_new) {
      push_followers(automaton, best.state, best.matched, node, best.path_chance, 1.0f);
    }
  }
}

void SamSource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) automaton_.append(token);
}

void SamSource::propose(int most, Tree* tree) {
  const SuffixAutomaton::State match = automaton_.link(automaton_.last());
  if (match == SuffixAutomaton::kNoState) return;
  grower_.grow(automaton_, match, automaton_.length(match), most, tree);
}

}  // namespace troika::draft
