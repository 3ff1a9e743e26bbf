#include "draft/suffix_automaton.h"

#include <bit>

namespace troika::draft {
namespace {

// The edges of a state are searched one by one as long as there are no more than this.
constexpr int kFewEdges = 6;
// Occurrences are counted for at most this many suffixes that a new token ends: that bounds the
// time for a token in texts such as "aaaa...".
constexpr int kMostCounted = 32;
constexpr size_t kFirstPlaces = 64;
// Counts the edges of the largest state, in texts as people write them.
constexpr size_t kUsualEdges = 4096;

}  // namespace

void SuffixAutomaton::clear() {
  states_.clear();
  edges_.clear();
  places_.assign(least_places_, {});
  n_hashed_ = 0;
  last_ = add_state(0, kNoState, 0);
}

// Takes memory. A text of n tokens has fewer than 2 n states and 3 n edges, some of which are
// hashed.
void SuffixAutomaton::reserve(int n_tokens) {
  const auto n = static_cast<size_t>(n_tokens);
  states_.reserve(2 * n + 2);
  edges_.reserve(3 * n + 3);
  scratch_.reserve(kUsualEdges);
  least_places_ = std::bit_ceil(2 * (3 * n + 3));
  if (places_.size() < least_places_) rehash(least_places_);
}

size_t SuffixAutomaton::bytes() const {
  return states_.capacity() * sizeof(StateData) + edges_.capacity() * sizeof(Edge) +
         places_.capacity() * sizeof(Place);
}

SuffixAutomaton::State SuffixAutomaton::add_state(int length, State link, int count) {
  states_.push_back({length, link, count, -1, 0});
  return static_cast<State>(states_.size()) - 1;
}

size_t SuffixAutomaton::first_place(State state, Token token) const {
  uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32;
  key = (key | static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15ull;
  return (key ^ key >> 32) & (places_.size() - 1);
}

int SuffixAutomaton::find_edge(State state, Token token) const {
  const StateData& data = at(state);
  if (data.n_edges <= kFewEdges) {
    int i = data.first_edge;
    while (i >= 0 && edges_[static_cast<size_t>(i)].token != token) {
      i = edges_[static_cast<size_t>(i)].next;
    }
    return i;
  }
  for (size_t place = first_place(state, token);; place = (place + 1) & (places_.size() - 1)) {
    const Place& found = places_[place];
    if (found.edge < 0) return -1;
    if (found.state == state && edges_[static_cast<size_t>(found.edge)].token == token) {
      return found.edge;
    }
  }
}

SuffixAutomaton::State SuffixAutomaton::next(State state, Token token) const {
  const int edge = find_edge(state, token);
  return edge < 0 ? kNoState : edges_[static_cast<size_t>(edge)].target;
}

void SuffixAutomaton::rehash(size_t n_places) {
  std::vector<Place> old(n_places);
  old.swap(places_);
  n_hashed_ = 0;
  for (const Place& place : old) {
    if (place.edge >= 0) hash(place.state, place.edge);
  }
}

void SuffixAutomaton::hash(State state, int edge) {
  if (2 * (n_hashed_ + 1) > places_.size()) {
    rehash(places_.empty() ? kFirstPlaces : 2 * places_.size());
  }
  size_t place = first_place(state, edges_[static_cast<size_t>(edge)].token);
  while (places_[place].edge >= 0) place = (place + 1) & (places_.size() - 1);
  places_[place] = {edge, state};
  ++n_hashed_;
}

void SuffixAutomaton::add_edge(State state, Token token, State target) {
  StateData& data = at(state);
  const auto edge = static_cast<int>(edges_.size());
  edges_.push_back({token, target, data.first_edge});
  data.first_edge = edge;
  ++data.n_edges;
  if (data.n_edges == kFewEdges + 1) {  // from now on all edges of the state are hashed
    for (int i = edge; i >= 0; i = edges_[static_cast<size_t>(i)].next) hash(state, i);
  } else if (data.n_edges > kFewEdges) {
    hash(state, edge);
  }
}

// Splits off `state` those substrings that `token` reaches from `from` and from its suffixes: from
// now on they end at more places.
SuffixAutomaton::State SuffixAutomaton::clone(State state, State from, Token token) {
  const State twin = add_state(length(from) + 1, link(state), count(state));
  // Edges are copied from the oldest on, so that the copies have the order of the edges.
  std::vector<int>& edges = scratch_;
  edges.clear();
  for (int i = at(state).first_edge; i >= 0; i = edges_[static_cast<size_t>(i)].next) {
    edges.push_back(i);
  }
  for (size_t i = edges.size(); i-- > 0;) {
    const Edge edge = edges_[static_cast<size_t>(edges[i])];
    add_edge(twin, edge.token, edge.target);
  }
  at(state).link = twin;
  for (; from != kNoState; from = link(from)) {
    const int edge = find_edge(from, token);
    if (edge < 0 || edges_[static_cast<size_t>(edge)].target != state) break;
    edges_[static_cast<size_t>(edge)].target = twin;
  }
  return twin;
}

void SuffixAutomaton::append(Token token) {
  const State before = last_;
  const State known = next(before, token);
  if (known != kNoState) {  // the new text begins like an earlier one
    last_ = length(known) == length(before) + 1 ? known : clone(known, before, token);
  } else {
    last_ = add_state(length(before) + 1, kStart, 0);
    State from = before;
    for (; from != kNoState && find_edge(from, token) < 0; from = link(from)) {
      add_edge(from, token, last_);
    }
    if (from != kNoState) {
      const State target = next(from, token);
      const State suffix = length(target) == length(from) + 1 ? target : clone(target, from, token);
      at(last_).link = suffix;
    }
  }
  State suffix = last_;
  for (int i = 0; i < kMostCounted && suffix != kStart; ++i, suffix = link(suffix)) {
    ++at(suffix).count;
  }
}

}  // namespace troika::draft
