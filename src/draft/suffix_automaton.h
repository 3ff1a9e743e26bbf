// All substrings of a text that grows at its end. For any suffix of the text it says where that
// occurred before and what followed, in constant time for each token (amortised). Several texts may
// stand in one automaton, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/batch.h"

namespace troika::draft {

using cache::Token;

class SuffixAutomaton {
 public:
  using State = int32_t;  // a class of substrings that end at the same places
  static constexpr State kStart = 0;
  static constexpr State kNoState = -1;

  SuffixAutomaton() { clear(); }
  void clear();
  // Takes memory, so that texts of n_tokens tokens in all fit without allocating.
  void reserve(int n_tokens);
  // Adds a token to the present text.
  void append(Token token);
  // Lets the next token begin another text: no substring reaches across.
  void begin_text() { last_ = kStart; }

  // Returns the state of the whole present text.
  State last() const { return last_; }
  // Returns the state of the longest suffix of the state's substrings that ends at more places than
  // they do. For `last()` this is the longest suffix of the text that also occurs elsewhere.
  // Returns kNoState for kStart.
  State link(State state) const { return at(state).link; }
  // Returns the length of the state's longest substring.
  int length(State state) const { return at(state).length; }
  // Returns how often the state's substrings occurred. The count is too small for very short
  // substrings with many longer ones.
  int count(State state) const { return at(state).count; }
  // Returns the state of a substring of this state with one more token, or kNoState.
  State next(State state, Token token) const;
  size_t bytes() const;

  // Calls body(token, state) for tokens that followed a substring of the state, at most `most` of
  // them. The token that was first seen most recently comes first.
  template <typename Body>
  void for_each_next(State state, int most, Body body) const {
    for (int i = at(state).first_edge; i >= 0 && most > 0; --most) {
      const Edge& edge = edges_[static_cast<size_t>(i)];
      body(edge.token, edge.target);
      i = edge.next;
    }
  }

 private:
  struct StateData {
    int length;
    State link;
    int count;
    int first_edge;
    int n_edges;
  };
  struct Edge {
    Token token;
    State target;
    int next;
  };
  const StateData& at(State state) const { return states_[static_cast<size_t>(state)]; }
  StateData& at(State state) { return states_[static_cast<size_t>(state)]; }
  State add_state(int length, State link, int count);
  State clone(State state, State from, Token token);
  int find_edge(State state, Token token) const;  // -1: there is none
  void add_edge(State state, Token token, State target);
  void hash(State state, int edge);
  void rehash(size_t n_places);
  size_t first_place(State state, Token token) const;

  std::vector<StateData> states_;
  std::vector<Edge> edges_;
  // A place of the hash table for edges of states that have many; edges of other states are found
  // by walking. A place holds an edge and its state, or -1.
  struct Place {
    int edge = -1;
    State state = kNoState;
  };
  std::vector<Place> places_;
  size_t n_hashed_ = 0;
  size_t least_places_ = 0;  // a power of two, or 0
  State last_ = kStart;
  std::vector<int> scratch_;
};

}  // namespace troika::draft
