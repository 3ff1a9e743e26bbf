// The algorithm that both kinds of tokenizers share: join the best pair of neighbours until none
// is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "text/vocabulary.h"

namespace troika::text {

// A run of bytes of the text that is being tokenized. Dead once it was joined to its left
// neighbour: size is 0 then.
struct Symbol {
  uint32_t begin;
  uint32_t size;
  int32_t previous;
  int32_t next;
  Token token;
};

// What a pair of neighbours would become. The lowest priority is joined first; among equals the
// leftmost.
struct Join {
  uint32_t priority;
  Token token;
};

class Merger {
 public:
  std::vector<Symbol>& symbols() { return symbols_; }

  // Links nothing yet: add symbols in order, then call run.
  void clear() { symbols_.clear(); }
  void add(uint32_t begin, uint32_t size, Token token) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({begin, size, index - 1, -1, token});
  }

  // `find(left, right, &join)` says whether two symbols may be joined. n log n in the symbols.
  template <typename Find>
  void run(const Find& find) {
    queue_.clear();
    for (size_t i = 1; i < symbols_.size(); ++i) {
      push(static_cast<int32_t>(i - 1), static_cast<int32_t>(i), find);
    }
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      const Candidate best = queue_.back();
      queue_.pop_back();
      Symbol& left = symbols_[best.left];
      Symbol& right = symbols_[best.right];
      // A candidate is outdated if one of the two was joined to something since.
      if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
      left.size += right.size;
      left.token = best.token;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols_[left.next].previous = best.left;
      if (left.previous >= 0) push(left.previous, best.left, find);
      if (left.next >= 0) push(best.left, left.next, find);
    }
  }

 private:
  struct Candidate {
    uint32_t priority;
    int32_t left;
    int32_t right;
    uint32_t size;
    Token token;
    bool operator>(const Candidate& other) const {
      return priority != other.priority ? priority > other.priority : left > other.left;
    }
  };

  template <typename Find>
  void push(int32_t left, int32_t right, const Find& find) {
    Join join;
    if (!find(symbols_[left], symbols_[right], &join)) return;
    queue_.push_back(
        {join.priority, left, right, symbols_[left].size + symbols_[right].size, join.token});
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;  // a heap
};

}  // namespace troika::text
