// A hash table from a pair of tokens to their Join.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "text/merge.h"

namespace troika::text {

// Hashes pairs that strangers have chosen. Each begins elsewhere, so that nobody can choose pairs
// which all have one place in a table.
class HashOfPairs {
 public:
  HashOfPairs() {
    std::random_device random;
    const auto number = [&] { return uint64_t{random()} << 32 | random(); };
    begin_ = number();
    factor_ = number() | 1;  // odd, so that pairs that differ stay different
  }
  // Mixes all bits, so that any of them may choose the place.
  uint64_t operator()(uint64_t pair) const {
    uint64_t hash = (pair ^ begin_) * factor_;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
  }

 private:
  uint64_t begin_, factor_;
};

class PairTable {
 public:
  // Must be called once, before any insertion; n is the most pairs that will be inserted.
  void reserve(size_t n) { slots_.assign(std::bit_ceil(2 * n + 2), {}); }

  // Inserts a pair, unless it is there already.
  void insert(Token left, Token right, Join join) {
    Slot& slot = slots_[index(key(left, right))];
    if (slot.key == kEmpty) slot = {key(left, right), join};
  }

  // Returns Join::kNever where the pair is not in the table.
  Join find(Token left, Token right) const { return slots_[index(key(left, right))].join; }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Join join;
  };

  static uint64_t key(Token left, Token right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  // Returns the slot of the key, or the empty one where it would stand.
  size_t index(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash_(key) & mask;
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  HashOfPairs hash_;
  std::vector<Slot> slots_;
};

}  // namespace troika::text
