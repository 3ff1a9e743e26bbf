// Parses a regular expression to a tree that has the parts as they were written.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/characters.h"
#include "grammar/limits.h"

namespace troika::grammar {

struct RegexTree {
  // kAhead and kNotAhead say what must, or must not, begin where they stand.
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat, kStart, kEnd, kAhead, kNotAhead };
  Kind kind = Kind::kSequence;
  CharacterSet set{};
  std::vector<RegexTree> parts{};
  int least = 0, most = 0;
  bool has_anchor = false;  // says that ^, $ or what looks ahead stands in it
};

inline bool looks_ahead(const RegexTree& tree) {
  return tree.kind == RegexTree::Kind::kAhead || tree.kind == RegexTree::Kind::kNotAhead;
}

// Returns the tree of a regular expression. Throws Error for a text that is none or too long, and
// for what is not supported. The pool counts the steps of reading classes.
RegexTree parse_regex(std::string_view regex, const Limits& limits, Pool* pool);

// Returns the characters of \p{name}. Throws Error for names that are not known.
CharacterSet character_property(std::string_view name);

}  // namespace troika::grammar
