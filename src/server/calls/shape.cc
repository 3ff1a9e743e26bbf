#include "server/calls/shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"

namespace troika::server {
namespace {

using Json = nlohmann::ordered_json;

// Names that stand nowhere in a template by themselves.
constexpr const char* kNames[] = {"probe_alpha", "probe_omega"};
constexpr const char* kId = "probeid01";
constexpr const char* kValue = "probe_value";

Json probe_tools() {
  Json tools = Json::array();
  for (const char* const name : kNames) {
    const Json parameters = {{"type", "object"},
                             {"properties", {{"probe_key", {{"type", "string"}}}}},
                             {"required", {"probe_key"}}};
    tools.push_back(
        {{"type", "function"},
         {"function", {{"name", name}, {"description", "Probe."}, {"parameters", parameters}}}});
  }
  return tools;
}

Json probe_arguments() { return {{"probe_key", kValue}}; }

Json probe_messages(int n_calls, const Json& arguments = probe_arguments()) {
  Json messages = Json::array();
  messages.push_back({{"role", "user"}, {"content", "Probe?"}});
  if (n_calls == 0) return messages;
  Json calls = Json::array();
  for (int i = 0; i < n_calls; ++i) {
    calls.push_back({{"id", kId},
                     {"type", "function"},
                     {"function", {{"name", kNames[i]}, {"arguments", arguments}}}});
  }
  messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
  return messages;
}

// Where two texts part, but not within a mark such as <think>: there both begin with "<t".
size_t common_bytes(const std::string& a, const std::string& b) {
  const auto n =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const size_t open = n == 0 || n == a.size() ? std::string::npos : a.find_last_of("<[", n - 1);
  const bool is_within = open != std::string::npos && a.find_last_of(">]\n", n - 1) + 1 <= open;
  return is_within ? open : n;
}

// What the template writes behind the generation prompt for this answer.
std::optional<std::string> answer_with(const engine::ChatFormat& chat, const Json& whole) {
  const Json tools = probe_tools(), question = probe_messages(0);
  try {
    const std::string prompt =
        chat.text(engine::Conversation{.messages = question, .tools = &tools});
    const std::string text =
        chat.text(engine::Conversation{.messages = whole, .tools = &tools, .adds_prompt = false});
    return text.substr(common_bytes(prompt, text));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The end of the JSON object that begins at `from`; npos where there is none.
size_t end_of_object(const std::string& text, size_t from) {
  int depth = 0;
  bool is_string = false;
  for (size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string::npos;
}

struct Found {
  size_t name, name_end, arguments, arguments_end;
};

std::optional<Found> find_call(const std::string& text, const char* name, size_t from) {
  Found found{};
  found.name = text.find(name, from);
  if (found.name == std::string::npos) return std::nullopt;
  found.name_end = found.name + std::string_view(name).size();
  found.arguments = text.find('{', found.name_end);
  const size_t value = text.find(kValue, found.name_end);
  if (found.arguments == std::string::npos || value < found.arguments) return std::nullopt;
  found.arguments_end = end_of_object(text, found.arguments);
  if (found.arguments_end == std::string::npos || value > found.arguments_end) return std::nullopt;
  const Json arguments = Json::parse(
      text.substr(found.arguments, found.arguments_end - found.arguments), nullptr, false);
  if (arguments != probe_arguments()) return std::nullopt;
  return found;
}

// Takes the id from the end of what stands before a name. False: it stands elsewhere, so that the
// model cannot make it up.
bool take_id(std::string* before, std::string* behind_id) {
  const size_t at = before->find(kId);
  if (at == std::string::npos) return true;
  *behind_id = before->substr(at + std::string_view(kId).size());
  before->resize(at);
  return !before->empty() && !behind_id->empty() && behind_id->find(kId) == std::string::npos;
}

// Where arguments are pairs: a text and a number, whose surroundings may differ.
constexpr const char* kSecondKey = "probe_num";
constexpr const char* kSecondValue = "73921";

// The places of these texts, one behind the other; empty where one is missing.
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
  const std::vector<size_t> at =
      places_of(text, {name, "probe_key", kValue, kSecondKey, kSecondValue});
  if (at.empty()) return std::nullopt;
  const auto between = [&](size_t i, const char* part) {
    const size_t begin = at[i] + std::string_view(part).size();
    return text.substr(begin, at[i + 1] - begin);
  };
  FoundPairs found{{}, between(0, name), at[0], 0};
  const std::string to_next = between(2, kValue);
  const size_t end_of_value = at[4] + std::string_view(kSecondValue).size();
  const std::string rest = text.substr(end_of_value);
  const size_t n_close = common_bytes(to_next, rest);
  found.pairs = {.open = to_next.substr(n_close),
                 .to_text = between(1, "probe_key"),
                 .to_json = between(3, kSecondKey),
                 .close = to_next.substr(0, n_close)};
  const CallShape::Pairs& p = found.pairs;
  if (p.open.empty() || p.to_text.empty() || p.to_json.empty() || p.close.empty() ||
      !found.middle.ends_with(p.open)) {
    return std::nullopt;
  }
  found.middle.resize(found.middle.size() - p.open.size());
  found.end = end_of_value + n_close;
  return found;
}

// What the template writes behind an answer in words.
std::string end_of_words(const engine::ChatFormat& chat) {
  Json whole = probe_messages(0);
  whole.push_back({{"role", "assistant"}, {"content", kValue}});
  const std::optional<std::string> text = answer_with(chat, whole);
  const size_t at = text ? text->rfind(kValue) : std::string::npos;
  return at == std::string::npos ? "" : text->substr(at + std::string_view(kValue).size());
}

// Thoughts that a template writes before a call are no part of it.
std::string without_thoughts(const std::string& before, const ThoughtMarks& marks) {
  const size_t close = marks.close.empty() ? std::string::npos : before.rfind(marks.close);
  if (close == std::string::npos) return before;
  const size_t begin = before.find_first_not_of(" \n", close + marks.close.size());
  return begin == std::string::npos ? "" : before.substr(begin);
}

// Up to what ends an answer: that is no text.
std::string without_end(std::string text, const std::string& usual_end) {
  if (!usual_end.empty() && text.ends_with(usual_end)) {
    text.resize(text.size() - usual_end.size());
  }
  static constexpr std::string_view kEnds[] = {
      "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",           "</s>",
      "<|end|>",       "<|call|>",        "<end_of_turn>",        "<｜end▁of▁sentence｜>",
      "<|endoftext|>", "<|end_of_text|>", "<|END_OF_TURN_TOKEN|>"};
  size_t end = text.size();
  for (const std::string_view mark : kEnds) end = std::min(end, text.find(mark));
  std::string kept = text.substr(0, end);
  while (!kept.empty() && kept.back() == '\n') kept.pop_back();
  return kept;
}

// Tools are told in the system message, and calls look as most models have seen them.
CallShape common_shape() {
  constexpr const char* kBefore = "<tool_call>\n{\"name\": \"";
  constexpr const char* kAfter = "}\n</tool_call>";
  return {kBefore, "\", \"arguments\": ", std::string(kAfter) + "\n" + kBefore, kAfter, false};
}

}  // namespace

std::string CallShape::trigger() const {
  const size_t begin = before.find_first_not_of(" \n\r\t");
  return begin == std::string::npos ? before : before.substr(begin);
}

namespace {

std::optional<CallShape> find_shape_of_pairs(const engine::ChatFormat& chat) {
  const Json arguments = {{"probe_key", kValue}, {kSecondKey, Json::parse(kSecondValue)}};
  const std::optional<std::string> one = answer_with(chat, probe_messages(1, arguments));
  const std::optional<FoundPairs> call = one ? find_pairs(*one, kNames[0]) : std::nullopt;
  if (!call) return std::nullopt;
  CallShape shape;
  shape.is_of_template = true;
  const ThoughtMarks marks = find_thought_marks(chat);
  shape.before = without_thoughts(one->substr(0, call->name), marks);
  shape.middle = call->middle;
  shape.pairs = call->pairs;
  shape.after = without_end(one->substr(call->end), end_of_words(chat));
  // A call without arguments ends at once: what comes first must tell that from a pair.
  const bool has_id = one->find(kId) != std::string::npos;
  if (has_id || shape.trigger().empty() || shape.middle.empty() || shape.after.empty() ||
      shape.after.starts_with(shape.pairs->open)) {
    return std::nullopt;
  }
  const std::optional<std::string> two = answer_with(chat, probe_messages(2, arguments));
  const std::optional<FoundPairs> first = two ? find_pairs(*two, kNames[0]) : std::nullopt;
  const size_t second = first ? two->find(kNames[1], first->end) : std::string::npos;
  const std::string behind = std::string(kNames[1]) + shape.middle + shape.pairs->open;
  if (second == std::string::npos || two->compare(second, behind.size(), behind) != 0) return shape;
  shape.between = two->substr(first->end, second - first->end);
  return shape;
}

}  // namespace

CallShape find_shape(const engine::ChatFormat& chat) {
  const std::optional<std::string> one = answer_with(chat, probe_messages(1));
  if (!one) return common_shape();
  const std::optional<Found> call = find_call(*one, kNames[0], 0);
  if (!call) return find_shape_of_pairs(chat).value_or(common_shape());
  CallShape shape;
  shape.is_of_template = true;
  const ThoughtMarks marks = find_thought_marks(chat);
  shape.before = without_thoughts(one->substr(0, call->name), marks);
  shape.middle = one->substr(call->name_end, call->arguments - call->name_end);
  shape.after = without_end(one->substr(call->arguments_end), end_of_words(chat));
  if (!take_id(&shape.before, &shape.behind_id)) return common_shape();
  for (const std::string& part : {shape.middle, shape.after}) {
    if (part.find(kId) != std::string::npos) return common_shape();
  }
  for (const std::string& part : {shape.before, shape.middle, shape.after}) {
    if (part.find(kId) != std::string::npos) return common_shape();
  }
  if (shape.trigger().empty() || shape.middle.empty()) return common_shape();
  const std::optional<std::string> two = answer_with(chat, probe_messages(2));
  if (!two) return shape;
  const std::optional<Found> first = find_call(*two, kNames[0], 0);
  const std::optional<Found> second =
      first ? find_call(*two, kNames[1], first->arguments_end) : std::nullopt;
  if (!second) return shape;
  std::string before = without_thoughts(two->substr(0, first->name), marks), behind_id;
  if (!take_id(&before, &behind_id) || before != shape.before) return shape;
  // Some count their calls behind the name: then there is one at a time.
  const auto middle = two->substr(second->name_end, second->arguments - second->name_end);
  if (middle != shape.middle) return shape;
  shape.between = two->substr(first->arguments_end, second->name - first->arguments_end);
  if (!take_id(&shape.between, &behind_id) || behind_id != shape.behind_id) shape.between.clear();
  return shape;
}

ThoughtMarks find_thought_marks(const engine::ChatFormat& chat) {
  static constexpr const char* kMarks[][2] = {
      {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
  for (const auto& marks : kMarks) {
    if (chat.source().find(marks[1]) != std::string::npos) return {marks[0], marks[1]};
  }
  return {};
}

}  // namespace troika::server
