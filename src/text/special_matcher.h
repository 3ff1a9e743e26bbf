// Finds the tokens that are cut out of a text before the tokenizer's algorithm sees it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace troika::text {

class SpecialMatcher {
 public:
  // Ignores empty strings.
  explicit SpecialMatcher(std::vector<std::pair<std::string, Token>> specials);

  struct Match {
    size_t begin = std::string_view::npos;
    size_t end = std::string_view::npos;
    Token token = kNoToken;
  };
  // Returns the leftmost match at or after `from`, and the longest one there. Without a match,
  // `token` is kNoToken and `begin` the end of the text.
  Match find(std::string_view text, size_t from) const;

 private:
  // Returns the longest match that begins exactly at `from`.
  Match match_at(std::string_view text, size_t from) const;

  std::vector<std::pair<std::string, Token>> specials_;  // sorted by text
  std::array<bool, 256> first_bytes_{};
};

}  // namespace troika::text
