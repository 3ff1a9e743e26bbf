#include "engine/chat.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "jinja/chat_template.h"
#include "text/special_matcher.h"

namespace troika::engine {
namespace {

using cache::Token;
using Json = nlohmann::ordered_json;

Json as_json(const std::vector<Message>& messages) {
  Json array = Json::array();
  for (const Message& message : messages) {
    array.push_back({{"role", message.role}, {"content", message.content}});
  }
  return array;
}

// These mark where a message spells a special token, so that it stays text when the rendered
// template is tokenized.
constexpr std::string_view kOpen = kTextMarks[0];
constexpr std::string_view kClose = kTextMarks[1];

// Returns the text without marks, so that no text can smuggle them in. Taking one away may put
// another together, so each byte is looked at where it comes to stand.
std::string without_marks(const std::string& text) {
  std::string kept;
  kept.reserve(text.size());
  for (const char c : text) {
    kept += c;
    const std::string_view all = kept;
    for (const std::string_view mark : kTextMarks) {
      if (c != mark.back() || !all.ends_with(mark)) continue;
      kept.resize(kept.size() - mark.size());
      break;
    }
  }
  return kept;
}

std::string_view token_text(const text::Tokenizer& tokenizer, Token token) {
  return tokenizer.is_token(token) ? tokenizer.piece(token, /*render_special=*/true)
                                   : std::string_view();
}

text::SpecialMatcher control_tokens(const text::Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, Token>> names;
  for (Token token = 0; token < tokenizer.n_tokens(); ++token) {
    if (tokenizer.is_control(token)) names.emplace_back(token_text(tokenizer, token), token);
  }
  return text::SpecialMatcher(std::move(names));
}

// Takes a prompt apart at the marks of texts. Templates cut messages as they like, and may leave a
// mark without its other half: such a mark is dropped and says nothing. A mark is searched anew
// only when the one found before is passed, so no byte is looked at more than twice, whatever is
// cut.
std::vector<ChatFormat::TextPart> parts_of(std::string_view whole) {
  std::vector<ChatFormat::TextPart> parts;
  size_t at = 0;
  const auto add_up_to = [&](size_t end, bool parse_special) {
    parts.push_back({.text = whole.substr(at, end - at), .parse_special = parse_special});
    at = end;
  };
  size_t open = whole.find(kOpen), close = whole.find(kClose);  // are the next ones from `at` on
  while (at < whole.size()) {
    add_up_to(std::min({open, close, whole.size()}), true);
    if (at == whole.size()) break;
    if (at == open) {
      at += kOpen.size();
      open = whole.find(kOpen, at);
      if (close == std::string_view::npos || open < close) continue;
      add_up_to(close, false);
    }
    at += kClose.size();
    close = whole.find(kClose, at);
  }
  return parts;
}

}  // namespace

struct ChatFormat::State {
  State(const text::Tokenizer& tokenizer, const std::string& source)
      : tokenizer(tokenizer),
        source(source),
        chat_template(source),
        special(control_tokens(tokenizer)) {}

  // Wraps every special token that the message spells in marks.
  std::string protect(const std::string& message) const {
    const std::string content = without_marks(message);
    std::string result;
    for (size_t at = 0; at < content.size();) {
      const text::SpecialMatcher::Match match = special.find(content, at);
      result.append(content, at, match.begin - at);
      if (match.token == text::kNoToken) break;
      result.append(kOpen).append(content, match.begin, match.end - match.begin).append(kClose);
      at = match.end;
    }
    return result;
  }

  // Protects all texts in a value, and the names in its objects: those of a tool's parameters are a
  // person's too. REQUIRES: whoever has read the value has bounded its depth.
  Json protect(const Json& json) const {
    if (json.is_string()) return protect(json.get_ref<const std::string&>());
    if (json.is_array()) {
      Json result = Json::array();
      for (const Json& part : json) result.push_back(protect(part));
      return result;
    }
    if (!json.is_object()) return json;
    Json result = Json::object();
    for (const auto& [name, part] : json.items()) result[protect(name)] = protect(part);
    return result;
  }

  std::string render(const TemplateInput& conversation, bool is_protected) const {
    const auto text_of = [&](const Json& json) { return is_protected ? protect(json) : json; };
    Json context;
    context["messages"] = text_of(conversation.messages);
    if (conversation.tools != nullptr) context["tools"] = text_of(*conversation.tools);
    context["add_generation_prompt"] = conversation.adds_prompt;
    context["bos_token"] = token_text(tokenizer, tokenizer.bos());
    context["eos_token"] = token_text(tokenizer, tokenizer.eos());
    if (conversation.extra != nullptr) context.update(*conversation.extra);
    return chat_template.render(context);
  }

  const text::Tokenizer& tokenizer;
  std::string source;
  jinja::ChatTemplate chat_template;
  text::SpecialMatcher special;
};

ChatFormat::ChatFormat(const Engine& engine, const std::string& source) {
  const std::string& own = engine.tokenizer().vocabulary().chat_template;
  if (source.empty() && own.empty()) {
    throw Error(
        fmt::format("{}: the file has no chat template, so it is probably not a chat "
                    "model. Use 'troika run' without ‹chat›, or give a template with "
                    "‹template› FILE.",
                    engine.file().path()));
  }
  state_ = std::make_unique<State>(engine.tokenizer(), source.empty() ? own : source);
}

ChatFormat::~ChatFormat() = default;

const std::string& ChatFormat::source() const { return state_->source; }

std::string ChatFormat::text(const std::vector<Message>& messages) const {
  const Json json = as_json(messages);
  return text(TemplateInput{.messages = json});
}

std::vector<Token> ChatFormat::prompt(const std::vector<Message>& messages) const {
  const Json json = as_json(messages);
  return prompt(TemplateInput{.messages = json});
}

std::string ChatFormat::text(const TemplateInput& conversation) const {
  return state_->render(conversation, false);
}

std::vector<Token> ChatFormat::prompt(const TemplateInput& conversation) const {
  return tokens_of(marked_text(conversation));
}

std::string ChatFormat::marked_text(const TemplateInput& conversation) const {
  return state_->render(conversation, true);
}

std::string ChatFormat::plain_text(std::string_view marked) {
  std::string text;
  text.reserve(marked.size());
  for (const TextPart& part : parts_of(marked)) text += part.text;
  return text;
}

std::vector<Token> ChatFormat::tokens_of(std::string_view marked,
                                         std::span<const TextPart> behind) const {
  const text::Tokenizer& tokenizer = state_->tokenizer;
  std::vector<Token> tokens;
  // Where the template writes the begin token itself, none is added. No end token is added, which
  // some models want behind texts: it would stand before the answer.
  const std::string_view bos = token_text(tokenizer, tokenizer.bos());
  const bool has_bos = !bos.empty() && marked.starts_with(bos);
  if (tokenizer.vocabulary().add_bos && !has_bos) tokens.push_back(tokenizer.bos());
  std::vector<TextPart> parts = parts_of(marked);
  parts.insert(parts.end(), behind.begin(), behind.end());
  const std::vector<Token> more = tokenizer.encode_parts(parts);
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

}  // namespace troika::engine
