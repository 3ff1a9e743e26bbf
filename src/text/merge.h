// Has the algorithm that both kinds of tokenizers share: join the best pair of neighbours until no
// pair can be joined.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "text/vocabulary.h"

namespace troika::text {

// What a pair of neighbours would become. The lowest priority is joined first; among equals the
// leftmost pair.
struct Join {
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t priority = kNever;
  Token token = kNoToken;
};

// A run of bytes of the text that is being tokenized. When it was joined to its left neighbour it
// is dead, and its size is 0.
struct Symbol {
  uint32_t begin;
  uint32_t size;
  int32_t previous;
  int32_t next;
  Token token;
  Join join;  // what it becomes with the next symbol
};

class Merger {
 public:
  // Returns the symbols in order. After `run`, follow `next` from the first one until it is
  // negative.
  const std::vector<Symbol>& symbols() const { return symbols_; }

  void clear() { symbols_.clear(); }
  void add(uint32_t begin, uint32_t size, Token token) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({begin, size, index - 1, -1, token, {}});
  }

  // Joins symbols; `find(left, right)` is the Join of two of them. Takes n log n steps for n
  // symbols.
  template <typename Find>
  void run(const Find& find) {
    first_.clear();
    later_.clear();
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) {
      symbols_[i].join = find(symbols_[i], symbols_[i + 1]);
      if (symbols_[i].join.priority != Join::kNever) first_.push_back(key(i));
    }
    std::sort(first_.begin(), first_.end());
    next_first_ = 0;
    for (uint64_t best; pop(&best);) {
      const auto index = static_cast<uint32_t>(best);
      Symbol& left = symbols_[index];
      // The key is outdated if one of the two symbols was joined to another since.
      if (left.size == 0 || left.join.priority != best >> 32) continue;
      Symbol& right = symbols_[left.next];
      left.size += right.size;
      left.token = left.join.token;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols_[left.next].previous = static_cast<int32_t>(index);
      if (left.previous >= 0) renew(left.previous, find);
      renew(static_cast<int32_t>(index), find);
    }
  }

 private:
  // Returns a key that orders by priority, then from left to right.
  uint64_t key(size_t left) const {
    return static_cast<uint64_t>(symbols_[left].join.priority) << 32 | left;
  }

  // Takes the least of all keys. They stand in two places because sorting the first ones once is
  // much cheaper than a heap of them.
  bool pop(uint64_t* best) {
    const bool has_first = next_first_ < first_.size();
    if (has_first && (later_.empty() || first_[next_first_] <= later_.front())) {
      *best = first_[next_first_++];
      return true;
    }
    if (later_.empty()) return false;
    std::pop_heap(later_.begin(), later_.end(), std::greater<>());
    *best = later_.back();
    later_.pop_back();
    return true;
  }

  template <typename Find>
  void renew(int32_t left, const Find& find) {
    Symbol& symbol = symbols_[left];
    symbol.join = symbol.next >= 0 ? find(symbol, symbols_[symbol.next]) : Join{};
    if (symbol.join.priority == Join::kNever) return;
    later_.push_back(key(left));
    std::push_heap(later_.begin(), later_.end(), std::greater<>());
  }

  std::vector<Symbol> symbols_;
  std::vector<uint64_t> first_;  // sorted
  size_t next_first_ = 0;
  std::vector<uint64_t> later_;  // a heap, with the least in front
};

}  // namespace troika::text
