#include "server/calls/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/os_error.h"
#include "engine/chat.h"

namespace troika::server {
namespace {

// Within a text of JSON these characters stand for themselves wherever control tokens have them.
constexpr std::string_view kPlainSigns = "<>|[]_";

bool has_mark(const std::string& text) {
  return std::any_of(std::begin(engine::kTextMarks), std::end(engine::kTextMarks),
                     [&](std::string_view mark) { return text.find(mark) != std::string::npos; });
}

// Returns the first control token that the value spells; empty if it spells none. Throws Refused
// for a mark, which could hide one.
std::string spelled_in(const Json& value, const text::SpecialMatcher& control) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (has_mark(text)) {
      throw Refused(400,
                    "A variable of the chat template holds the character U+FDD0 or U+FDD1, which "
                    "is none and has a meaning of its own here. Leave it out.",
                    "chat_template_kwargs");
    }
    const text::SpecialMatcher::Match match = control.find(text, 0);
    return match.token == text::kNoToken ? "" : text.substr(match.begin, match.end - match.begin);
  }
  if (!value.is_structured()) return "";
  for (const auto& [name, part] : value.items()) {
    if (value.is_object()) {
      if (std::string found = spelled_in(Json(name), control); !found.empty()) return found;
    }
    if (std::string found = spelled_in(part, control); !found.empty()) return found;
  }
  return "";
}

// Returns the text with each `mark` in it replaced. It is written anew, because a client decides
// how many marks there are, and in place each would move all that follows.
std::string with_replaced(std::string_view text, std::string_view mark, std::string_view by) {
  std::string replaced;
  replaced.reserve(text.size());
  for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark)) {
    replaced.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + mark.size());
  }
  return replaced.append(text);
}

[[noreturn]] void refuse_spelling(const std::string& variable, const std::string& token) {
  throw Refused(400,
                fmt::format("The variable {} of the chat template spells the control token {}, and "
                            "the model would read it as one. Leave it out, or say it in a message, "
                            "where it stays text.",
                            troika::quoted(variable), troika::quoted(token)),
                variable);
}

}  // namespace

void check_variables(const Json& variables, const text::SpecialMatcher& control) {
  for (const auto& [name, value] : variables.items()) {
    const std::string token = spelled_in(value, control);
    if (!token.empty()) refuse_spelling(name, token);
  }
}

std::string functions_text(const Json& functions, const text::SpecialMatcher& control) {
  std::string all = functions.dump(2, ' ', false, Json::error_handler_t::replace);
  constexpr const char* kWritten[] = {"\\ufdd0", "\\ufdd1"};
  for (size_t i = 0; i < std::size(kWritten); ++i) {
    all = with_replaced(all, engine::kTextMarks[i], kWritten[i]);
  }
  std::string text;
  for (size_t at = 0; at < all.size();) {
    const text::SpecialMatcher::Match match = control.find(all, at);
    if (match.token == text::kNoToken) return text.append(all, at);
    const size_t sign = all.find_first_of(kPlainSigns, match.begin);
    if (sign >= match.end) {
      refuse_spelling("functions", all.substr(match.begin, match.end - match.begin));
    }
    text.append(all, at, sign - at);
    text += fmt::format("\\u{:04x}", static_cast<unsigned char>(all[sign]));
    at = sign + 1;
  }
  return text;
}

}  // namespace troika::server
