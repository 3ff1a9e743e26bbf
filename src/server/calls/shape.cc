#include "server/calls/shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_marks.h"
#include "server/calls/probes.h"

namespace troika::server {
namespace {

using namespace probes;

// Returns the end of the JSON object that begins at `from`; npos if there is none.
size_t end_of_object(const std::string& text, size_t from) {
  size_t end = std::string::npos;
  visit_json_marks(std::string_view(text).substr(from), [&](const JsonMark& mark) {
    if (mark.n_levels == 0) end = from + mark.place + 1;
    return mark.n_levels > 0;
  });
  return end;
}

struct Found {
  size_t name, name_end, arguments, arguments_end;
};

std::optional<Found> find_call(const std::string& text, const char* name, size_t from) {
  Found found{};
  found.name = text.find(name, from);
  if (found.name == std::string::npos) return std::nullopt;
  found.name_end = found.name + length(name);
  found.arguments = text.find('{', found.name_end);
  const size_t value = text.find(kValue, found.name_end);
  if (found.arguments == std::string::npos || value < found.arguments) return std::nullopt;
  found.arguments_end = end_of_object(text, found.arguments);
  if (found.arguments_end == std::string::npos || value > found.arguments_end) return std::nullopt;
  const Json json = Json::parse(text.substr(found.arguments, found.arguments_end - found.arguments),
                                nullptr, false);
  if (!(json == arguments())) return std::nullopt;
  return found;
}

// Takes the id from the end of what stands before a name. Returns false if the id stands elsewhere,
// so that the model could not make up one.
bool take_id(std::string* before, std::string* behind_id) {
  const size_t at = before->find(kId);
  if (at == std::string::npos) return true;
  *behind_id = before->substr(at + length(kId));
  before->resize(at);
  return !before->empty() && !behind_id->empty() && behind_id->find(kId) == std::string::npos;
}

// Takes the number of a call from behind the name, as some templates count calls. Returns false if
// what differs there between two calls is no number.
bool take_count(const std::string& second, CallShape* shape) {
  const std::string& first = shape->middle;
  const size_t at = common_bytes(first, second);
  if (at == 0 || at >= first.size() || first[at] != '0' || second.size() != first.size() ||
      second[at] != '1' || first.substr(at + 1) != second.substr(at + 1) ||
      at + 1 == first.size()) {
    return false;
  }
  shape->behind_count = first.substr(at + 1);
  shape->middle.resize(at);
  return true;
}

// Returns a shape for templates that know no tools: the system message describes the tools, and
// calls look as most models have seen them.
CallShape common_shape() {
  constexpr const char* kBefore = "<tool_call>\n{\"name\": \"";
  constexpr const char* kAfter = "}\n</tool_call>";
  return {.before = kBefore,
          .middle = "\", \"arguments\": ",
          .between = std::string(kAfter) + "\n" + kBefore,
          .after = kAfter};
}

// Returns the shape that the template has, or the common one.
CallShape shape_of(const engine::ChatFormat& chat) {
  const std::optional<std::string> one = answer_with(chat, messages(1));
  if (!one) return common_shape();
  const std::optional<Found> call = find_call(*one, kNames[0], 0);
  if (!call) {
    const std::optional<CallShape> pairs = find_shape_of_pairs(chat);
    return pairs ? *pairs : find_shape_of_marks(chat).value_or(common_shape());
  }
  CallShape shape;
  shape.is_of_template = true;
  const ThoughtMarks marks = find_thought_marks(chat);
  shape.before = without_thoughts(one->substr(0, call->name), marks);
  shape.middle = one->substr(call->name_end, call->arguments - call->name_end);
  shape.after = without_end(one->substr(call->arguments_end), end_of_words(chat));
  if (!take_id(&shape.before, &shape.behind_id)) return common_shape();
  for (const std::string& part : {shape.before, shape.middle, shape.after}) {
    if (part.find(kId) != std::string::npos) return common_shape();
  }
  if (shape.trigger().empty() || shape.middle.empty()) return common_shape();
  const std::optional<std::string> two = answer_with(chat, messages(2));
  if (!two) return shape;
  const std::optional<Found> first = find_call(*two, kNames[0], 0);
  const std::optional<Found> second =
      first ? find_call(*two, kNames[1], first->arguments_end) : std::nullopt;
  if (!second) return shape;
  std::string before = without_thoughts(two->substr(0, first->name), marks), behind_id;
  if (!take_id(&before, &behind_id) || before != shape.before) return shape;
  const auto middle = two->substr(second->name_end, second->arguments - second->name_end);
  if (middle != shape.middle && !take_count(middle, &shape)) return shape;
  shape.between = two->substr(first->arguments_end, second->name - first->arguments_end);
  if (!take_id(&shape.between, &behind_id) || behind_id != shape.behind_id) shape.between.clear();
  return shape;
}

}  // namespace

std::string CallShape::trigger() const {
  const size_t begin = before.find_first_not_of(" \n\r\t");
  return begin == std::string::npos ? before : before.substr(begin);
}

std::string CallShape::mark() const {
  constexpr std::string_view kOpen = "<|", kClose = "|>";
  const std::string whole = trigger();
  const size_t close = whole.starts_with(kOpen) ? whole.find(kClose) : std::string::npos;
  return close == std::string::npos ? whole : whole.substr(0, close + kClose.size());
}

std::string CallShape::ending() const {
  if (between.empty()) return after;
  const auto end = std::mismatch(after.begin(), after.end(), between.begin(), between.end()).first;
  return {after.begin(), end};
}

size_t CallShape::end_of_name(const std::string& text) const {
  if (!behind_count.empty()) return text.find(behind_count);
  if (!middle.empty()) return text.find(middle);
  if (!pairs) return text.find('{');
  return std::min(text.find(pairs->open), text.find(after));
}

CallShape find_shape(const engine::ChatFormat& chat) {
  CallShape shape = shape_of(chat);
  shape.takes_system = takes_system(chat);
  shape.wants_descriptions = shape.is_of_template && !answer_with(chat, messages(1), false);
  return shape;
}

ThoughtMarks find_thought_marks(const engine::ChatFormat& chat) {
  static constexpr const char* kMarks[][2] = {{"<think>", "</think>"},
                                              {"[THINK]", "[/THINK]"},
                                              {"<seed:think>", "</seed:think>"},
                                              {"<mm:think>", "</mm:think>"},
                                              {"<|START_THINKING|>", "<|END_THINKING|>"},
                                              {"<|channel>thought\n", "<channel|>"}};
  for (const auto& marks : kMarks) {
    if (chat.source().find(marks[1]) != std::string::npos) return {marks[0], marks[1]};
  }
  return {};
}

}  // namespace troika::server
