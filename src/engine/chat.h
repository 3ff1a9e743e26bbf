// Conversations as the model was trained to see them: its chat template around the messages.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace troika::engine {

struct Message {
  std::string role;  // who speaks: "system", "user", "assistant"
  std::string content;
};

// Everything that a template may be told.
struct TemplateInput {
  const nlohmann::ordered_json& messages;  // an array of objects, as templates know them
  // The tools in the form that templates know; null leaves the variable undefined.
  const nlohmann::ordered_json* tools = nullptr;
  const nlohmann::ordered_json* extra = nullptr;  // further variables, which win over the others
  bool adds_prompt = true;                        // adds what comes before an answer
};

// Unicode noncharacters, U+FDD0 and U+FDD1, which no text should contain. Prompts are marked with
// them before they become tokens, so messages and tools lose theirs. Variables are taken as they
// are: who takes them from strangers refuses those with such a mark.
inline constexpr std::string_view kTextMarks[] = {"\xEF\xB7\x90", "\xEF\xB7\x91"};

class ChatFormat {
 public:
  // Uses the template of the model file, or `source` where that is not empty. Throws Error where
  // there is no template, or it does not parse.
  explicit ChatFormat(const Engine& engine, const std::string& source = "");
  ~ChatFormat();

  // Returns the tokens after which the model writes its answer. Special tokens in the messages are
  // plain text, unless the template makes one of what it changes in a message ('<X/s>' without X).
  std::vector<cache::Token> prompt(const std::vector<Message>& messages) const;
  // Returns the prompt as a text, before it becomes tokens.
  std::string text(const std::vector<Message>& messages) const;
  std::vector<cache::Token> prompt(const TemplateInput& conversation) const;
  std::string text(const TemplateInput& conversation) const;

  // Returns the prompt as a text with marks around the special tokens that messages and tools
  // spell. The functions below make what is wanted of it without asking the template again.
  std::string marked_text(const TemplateInput& conversation) const;
  // Returns a marked text without its marks.
  static std::string plain_text(std::string_view marked);
  using TextPart = text::Tokenizer::TextPart;
  // Returns the tokens of a marked text, and behind it of the parts that the answer begins with.
  std::vector<cache::Token> tokens_of(std::string_view marked,
                                      std::span<const TextPart> behind = {}) const;
  // Returns the template itself.
  const std::string& source() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troika::engine
