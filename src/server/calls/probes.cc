#include "server/calls/probes.h"

#include <algorithm>

#include "base/error.h"

namespace troika::server::probes {
namespace {

Json probe_tools(bool has_descriptions) {
  Json tools = Json::array();
  for (const char* const name : kNames) {
    Json property = {{"type", "string"}}, function = {{"name", name}};
    if (has_descriptions) {
      property["description"] = "Probe.";
      function["description"] = "Probe.";
    }
    function["parameters"] = {
        {"type", "object"}, {"properties", {{kKey, property}}}, {"required", {kKey}}};
    tools.push_back({{"type", "function"}, {"function", function}});
  }
  return tools;
}

}  // namespace

Json arguments() { return {{kKey, kValue}}; }

Json two_arguments() { return {{kKey, kValue}, {kSecondKey, Json::parse(kSecondValue)}}; }

Json messages(int n_calls, const Json& arguments) {
  Json list = Json::array();
  list.push_back({{"role", "user"}, {"content", "Probe?"}});
  if (n_calls == 0) return list;
  Json calls = Json::array();
  for (int i = 0; i < n_calls; ++i) {
    calls.push_back({{"id", kId},
                     {"type", "function"},
                     {"function", {{"name", kNames[i]}, {"arguments", arguments}}}});
  }
  list.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
  return list;
}

size_t common_bytes(const std::string& a, const std::string& b) {
  const auto n =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const size_t open = n == 0 || n == a.size() ? std::string::npos : a.find_last_of("<[", n - 1);
  const bool is_within = open != std::string::npos && a.find_last_of(">]\n", n - 1) + 1 <= open;
  return is_within ? open : n;
}

std::optional<std::string> answer_with(const engine::ChatFormat& chat, const Json& whole,
                                       bool has_descriptions) {
  const Json tools = probe_tools(has_descriptions), question = messages(0);
  try {
    const std::string prompt =
        chat.text(engine::TemplateInput{.messages = question, .tools = &tools});
    const std::string text =
        chat.text(engine::TemplateInput{.messages = whole, .tools = &tools, .adds_prompt = false});
    const std::string answer = text.substr(common_bytes(prompt, text));
    // The prompt may end with a mark behind which the model answers. If the answer begins with that
    // mark too, the mark is no part of the answer.
    for (size_t n = std::min(prompt.size(), answer.size()); n > 0; --n) {
      const std::string_view last = std::string_view(prompt).substr(prompt.size() - n);
      if (last.front() == '<' && answer.starts_with(last)) return answer.substr(n);
    }
    return answer;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool takes_system(const engine::ChatFormat& chat) {
  Json whole = messages(0);
  whole.insert(whole.begin(), Json{{"role", "system"}, {"content", kValue}});
  try {
    return chat.text(engine::TemplateInput{.messages = whole}).find(kValue) != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::string end_of_words(const engine::ChatFormat& chat) {
  Json whole = messages(0);
  whole.push_back({{"role", "assistant"}, {"content", kValue}});
  const std::optional<std::string> text = answer_with(chat, whole);
  const size_t at = text ? text->rfind(kValue) : std::string::npos;
  return at == std::string::npos ? "" : text->substr(at + length(kValue));
}

std::string without_thoughts(const std::string& before, const ThoughtMarks& marks) {
  const size_t close = marks.close.empty() ? std::string::npos : before.rfind(marks.close);
  if (close == std::string::npos) return before;
  const size_t begin = before.find_first_not_of(" \n", close + marks.close.size());
  return begin == std::string::npos ? "" : before.substr(begin);
}

std::string without_end(std::string text, const std::string& usual_end) {
  if (!usual_end.empty() && text.ends_with(usual_end)) {
    text.resize(text.size() - usual_end.size());
  }
  static constexpr std::string_view kEnds[] = {"<|im_end|>",
                                               "<|eot_id|>",
                                               "<|eom_id|>",
                                               "</s>",
                                               "<|end|>",
                                               "<|call|>",
                                               "<end_of_turn>",
                                               "<｜end▁of▁sentence｜>",
                                               "<|endoftext|>",
                                               "<|end_of_text|>",
                                               "<|END_OF_TURN_TOKEN|>",
                                               "<|START_OF_TURN_TOKEN|>"};
  size_t end = text.size();
  for (const std::string_view mark : kEnds) end = std::min(end, text.find(mark));
  std::string kept = text.substr(0, end);
  while (!kept.empty() && kept.back() == '\n') kept.pop_back();
  return kept;
}

}  // namespace troika::server::probes
