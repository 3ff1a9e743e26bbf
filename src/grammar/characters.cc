#include "grammar/characters.h"

#include <algorithm>

#include "text/utf8.h"

namespace troika::grammar {
namespace {

constexpr uint32_t kSurrogates = 0xd800, kBehindSurrogates = 0xe000;
// Lists the first code points that take 2, 3 and 4 bytes, and the one behind the last.
constexpr uint32_t kLengths[] = {0, 0x80, 0x800, 0x10000, CharacterSet::kLast + 1};

// Returns the UTF-8 bytes of the characters from `first` to `last`, which have the same number of
// bytes. `n_left` bytes are still to be written behind the next one.
Expr bytes_between(Pool* pool, uint32_t first, uint32_t last, int n_left) {
  if (n_left == 0) {
    return pool->bytes(ByteSet::range(static_cast<int>(first), static_cast<int>(last)));
  }
  const int shift = 6 * n_left;
  const uint32_t rest = (uint32_t{1} << shift) - 1;
  const auto lead = [&](uint32_t code) { return static_cast<int>(code >> shift); };
  const auto tail = [&](uint32_t from, uint32_t to) {
    // Behind this byte, the next byte holds 6 more bits of the character.
    return bytes_between(pool, from, to, n_left - 1);
  };
  std::vector<Expr> ways;
  const auto add = [&](int low, int high, Expr then) {
    ways.push_back(pool->concat(pool->bytes(ByteSet::range(low, high)), then));
  };
  constexpr uint32_t kMark = 0x80;
  const uint32_t mark = kMark << (6 * (n_left - 1));  // the mark of the next byte
  const auto next = [&](uint32_t code) { return (code & rest) | mark; };
  if (lead(first) == lead(last)) {
    add(lead(first), lead(last), tail(next(first), next(last)));
    return pool->any(ways);
  }
  int low = lead(first), high = lead(last);
  if ((first & rest) != 0) {
    add(low, low, tail(next(first), next(rest)));
    ++low;
  }
  if ((last & rest) != rest) {
    add(high, high, tail(next(0), next(last)));
    --high;
  }
  if (low <= high) add(low, high, tail(next(0), next(rest)));
  return pool->any(ways);
}

}  // namespace

CharacterSet CharacterSet::all() { return range(0, kLast); }

CharacterSet CharacterSet::range(uint32_t first, uint32_t last) {
  return of_ranges({{first, last}});
}

CharacterSet CharacterSet::of_ranges(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharacterSet set;
  for (const auto& [first, last] : ranges) {
    set.append(first, std::min(last, kSurrogates - 1));
    set.append(std::max(first, kBehindSurrogates), std::min(last, kLast));
  }
  return set;
}

// Adds a range that begins behind the beginnings of those before it. Nothing is added where the
// range ends before it begins.
void CharacterSet::append(uint32_t first, uint32_t last) {
  if (first > last) return;
  if (!ranges_.empty() && first <= ranges_.back().second + 1) {
    ranges_.back().second = std::max(ranges_.back().second, last);
  } else {
    ranges_.emplace_back(first, last);
  }
}

void CharacterSet::add(uint32_t first, uint32_t last) { add(range(first, last)); }

void CharacterSet::add(const CharacterSet& other) {
  Ranges ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  *this = of_ranges(std::move(ranges));
}

CharacterSet CharacterSet::without(const CharacterSet& other) const {
  CharacterSet left;
  for (auto [first, last] : ranges_) {
    bool is_left = true;
    for (const auto& [low, high] : other.ranges_) {
      if (high < first) continue;
      if (low > last) break;
      if (low > first) left.ranges_.emplace_back(first, low - 1);
      is_left = high < last;
      if (!is_left) break;
      first = high + 1;
    }
    if (is_left) left.ranges_.emplace_back(first, last);
  }
  return left;
}

bool CharacterSet::has(uint32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const auto& r) { return r.first <= code && code <= r.second; });
}

Expr utf8_character(Pool* pool, const CharacterSet& set) {
  constexpr uint32_t kLeads[] = {0, 0xc0, 0xe0, 0xf0};
  std::vector<Expr> ways;
  for (const auto& [first, last] : set.ranges()) {
    for (int n_more = 0; n_more < 4; ++n_more) {
      const uint32_t low = std::max(first, kLengths[n_more]);
      const uint32_t high = std::min(last, kLengths[n_more + 1] - 1);
      if (low > high) continue;
      const uint32_t lead = kLeads[n_more] << (6 * n_more);
      ways.push_back(bytes_between(pool, low | lead, high | lead, n_more));
    }
  }
  return pool->any(ways);
}

}  // namespace troika::grammar
