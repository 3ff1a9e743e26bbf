// Finds the shape of calls whose arguments a template writes as pairs of keys and values.
#include <initializer_list>
#include <vector>

#include "server/calls/probes.h"

namespace troika::server::probes {
namespace {

// Returns the places of these texts, which stand one behind the other; empty if one is missing.
std::vector<size_t> places_of(const std::string& text, std::initializer_list<const char*> parts) {
  std::vector<size_t> places;
  size_t from = 0;
  for (const char* const part : parts) {
    const size_t at = text.find(part, from);
    if (at == std::string::npos) return {};
    places.push_back(at);
    from = at + std::string_view(part).size();
  }
  return places;
}

// A call whose arguments are pairs; `end` is where they end.
struct FoundPairs {
  CallShape::Pairs pairs;
  std::string middle;
  size_t name, end;
};

std::optional<FoundPairs> find_pairs(const std::string& text, const char* name) {
  const std::vector<size_t> at = places_of(text, {name, kKey, kValue, kSecondKey, kSecondValue});
  if (at.empty()) return std::nullopt;
  const auto between = [&](size_t i, const char* part) {
    const size_t begin = at[i] + length(part);
    return text.substr(begin, at[i + 1] - begin);
  };
  FoundPairs found{{}, between(0, name), at[0], at[4] + length(kSecondValue)};
  CallShape::Pairs& p = found.pairs;
  p.to_text = between(1, kKey);
  p.to_json = between(3, kSecondKey);
  const std::string to_next = between(2, kValue);
  if (const size_t key = to_next.find(kKey); key != std::string::npos) {
    const size_t behind = key + length(kKey), end = to_next.find('>', behind) + 1;
    if (end == 0) return std::nullopt;
    p.close = to_next.substr(0, key);
    p.behind_key = to_next.substr(behind, end - behind);
    p.open = to_next.substr(end);
    const std::string expected = p.close + kSecondKey + p.behind_key;
    if (text.compare(found.end, expected.size(), expected) != 0) return std::nullopt;
    found.end += expected.size();
  } else {
    const size_t n_close = common_bytes(to_next, text.substr(found.end));
    p.close = to_next.substr(0, n_close);
    p.open = to_next.substr(n_close);
    found.end += n_close;
  }
  if (p.open.empty() || p.to_text.empty() || p.to_json.empty() || p.close.empty() ||
      !found.middle.ends_with(p.open)) {
    return std::nullopt;
  }
  found.middle.resize(found.middle.size() - p.open.size());
  return found;
}

}  // namespace

std::optional<CallShape> find_shape_of_pairs(const engine::ChatFormat& chat) {
  const std::optional<std::string> one = answer_with(chat, messages(1, two_arguments()));
  const std::optional<FoundPairs> call = one ? find_pairs(*one, kNames[0]) : std::nullopt;
  if (!call) return std::nullopt;
  CallShape shape;
  shape.is_of_template = true;
  const ThoughtMarks marks = find_thought_marks(chat);
  shape.before = without_thoughts(one->substr(0, call->name), marks);
  shape.middle = call->middle;
  shape.pairs = call->pairs;
  shape.after = without_end(one->substr(call->end), end_of_words(chat));
  const bool has_id = one->find(kId) != std::string::npos;
  if (has_id || shape.trigger().empty() || shape.after.empty()) return std::nullopt;
  const std::optional<std::string> two = answer_with(chat, messages(2, two_arguments()));
  const std::optional<FoundPairs> first = two ? find_pairs(*two, kNames[0]) : std::nullopt;
  const size_t second = first ? two->find(kNames[1], first->end) : std::string::npos;
  const std::string behind = std::string(kNames[1]) + shape.middle + shape.pairs->open;
  if (second == std::string::npos || two->compare(second, behind.size(), behind) != 0) return shape;
  shape.between = two->substr(first->end, second - first->end);
  return shape;
}

}  // namespace troika::server::probes
