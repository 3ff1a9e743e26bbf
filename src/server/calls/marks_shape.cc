// Finds the shape of calls whose arguments a template writes as JSON with marks of its own around
// texts, and with bare keys.
#include "server/calls/probes.h"

namespace troika::server::probes {
namespace {

// NAME{KEY:MARK VALUE MARK,KEY:NUMBER}
struct FoundMarks {
  std::string mark;
  size_t name, end;
};

std::optional<FoundMarks> find_marks(const std::string& text, const char* name, size_t from) {
  FoundMarks found{{}, text.find(name, from), 0};
  if (found.name == std::string::npos) return std::nullopt;
  const std::string first = std::string(name) + "{" + kKey + ":";
  if (text.compare(found.name, first.size(), first) != 0) return std::nullopt;
  const size_t mark = found.name + first.size(), value = text.find(kValue, mark);
  if (value == std::string::npos || value == mark) return std::nullopt;
  found.mark = text.substr(mark, value - mark);
  const std::string rest = kValue + found.mark + "," + kSecondKey + ":" + kSecondValue + "}";
  if (text.compare(value, rest.size(), rest) != 0) return std::nullopt;
  found.end = value + rest.size();
  return found;
}

}  // namespace

std::optional<CallShape> find_shape_of_marks(const engine::ChatFormat& chat) {
  const Json arguments = two_arguments();
  const std::optional<std::string> one = answer_with(chat, messages(1, arguments));
  const std::optional<FoundMarks> call = one ? find_marks(*one, kNames[0], 0) : std::nullopt;
  if (!call || one->find(kId) != std::string::npos) return std::nullopt;
  CallShape shape;
  shape.is_of_template = true;
  shape.before = without_thoughts(one->substr(0, call->name), find_thought_marks(chat));
  shape.text_mark = call->mark;
  shape.after = without_end(one->substr(call->end), end_of_words(chat));
  if (shape.trigger().empty()) return std::nullopt;
  const std::optional<std::string> two = answer_with(chat, messages(2, arguments));
  const std::optional<FoundMarks> first = two ? find_marks(*two, kNames[0], 0) : std::nullopt;
  const std::optional<FoundMarks> second =
      first ? find_marks(*two, kNames[1], first->end) : std::nullopt;
  if (second) shape.between = two->substr(first->end, second->name - first->end);
  return shape;
}

}  // namespace troika::server::probes
