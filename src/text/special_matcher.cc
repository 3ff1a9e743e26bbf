#include "text/special_matcher.h"

#include <algorithm>

namespace troika::text {
namespace {

// Returns the byte at `depth`, or -1 at the end, so that shorter strings stand first.
int byte_at(const std::string& s, size_t depth) {
  return depth < s.size() ? static_cast<unsigned char>(s[depth]) : -1;
}

}  // namespace

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string, Token>> specials)
    : specials_(std::move(specials)) {
  std::erase_if(specials_, [](const auto& s) { return s.first.empty(); });
  std::sort(specials_.begin(), specials_.end());
  for (const auto& [name, token] : specials_) {
    first_bytes_[static_cast<unsigned char>(name[0])] = true;
  }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const {
  for (size_t i = from; i < text.size(); ++i) {
    if (!first_bytes_[static_cast<unsigned char>(text[i])]) continue;
    const Match match = match_at(text, i);
    if (match.token != kNoToken) return match;
  }
  return {text.size(), text.size(), kNoToken};
}

SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t from) const {
  Match best;
  auto begin = specials_.begin();
  auto end = specials_.end();
  // Each step compares one byte more and narrows the range of specials that share the text's first
  // bytes.
  for (size_t depth = 0; begin != end; ++depth) {
    if (begin->first.size() == depth) best = {from, from + depth, begin->second};
    if (from + depth == text.size()) break;
    const int byte = static_cast<unsigned char>(text[from + depth]);
    begin = std::partition_point(begin, end,
                                 [&](const auto& s) { return byte_at(s.first, depth) < byte; });
    end = std::partition_point(begin, end,
                               [&](const auto& s) { return byte_at(s.first, depth) <= byte; });
  }
  return best;
}

}  // namespace troika::text
