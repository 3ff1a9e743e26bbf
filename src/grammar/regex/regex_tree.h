// A regular expression as it was written.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/characters.h"
#include "grammar/limits.h"

namespace troika::grammar {

struct RegexTree {
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat, kStart, kEnd };
  Kind kind = Kind::kSequence;
  CharacterSet set{};
  std::vector<RegexTree> parts{};
  int least = 0, most = 0;
  bool has_anchor = false;  // ^ or $ stands in it
};

// Throws Error for what is no regular expression, or not supported.
RegexTree parse_regex(std::string_view regex, const Limits& limits);

// \p{name}, as far as it is known. Throws Error.
CharacterSet character_property(std::string_view name);

}  // namespace troika::grammar
