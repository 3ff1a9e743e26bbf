// Holds sets of Unicode characters, and makes expressions of their UTF-8 bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/pool.h"

namespace troika::grammar {

// A set of code points, which never holds surrogates.
class CharacterSet {
 public:
  static constexpr uint32_t kLast = 0x10ffff;
  static CharacterSet all();
  static CharacterSet of(uint32_t code) { return range(code, code); }
  static CharacterSet range(uint32_t first, uint32_t last);
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;
  // Returns the characters that are in one of these ranges, which may overlap.
  static CharacterSet of_ranges(Ranges ranges);

  void add(uint32_t first, uint32_t last);
  void add(const CharacterSet& other);
  CharacterSet without(const CharacterSet& other) const;
  CharacterSet inverted() const { return all().without(*this); }
  CharacterSet both(const CharacterSet& other) const { return without(other.inverted()); }
  bool has(uint32_t code) const;
  bool empty() const { return ranges_.empty(); }
  // Returns the ranges in order; there is a gap between any two.
  const Ranges& ranges() const { return ranges_; }

 private:
  void append(uint32_t first, uint32_t last);

  Ranges ranges_;
};

// Returns an expression for one character of the set in UTF-8.
Expr utf8_character(Pool* pool, const CharacterSet& set);

}  // namespace troika::grammar
