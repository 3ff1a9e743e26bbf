// One turn of a conversation: from messages, tools and a wanted form to a prompt, a grammar, and
// who reads the answer.
#pragma once

#include <optional>
#include <string>

#include "server/context.h"
#include "server/conversation.h"

namespace troika::server {

// What the text of an answer is held to, where it calls no tool.
struct AnswerForm {
  grammar::Format format;
  std::string text;
};

// "response_format", and the fields "grammar", "json_schema" and "regex". Throws Refused.
std::optional<AnswerForm> read_form(Fields& fields);

// Fills in prompt and grammar of what is wanted. Throws Refused.
Answers::MakeReader prepare_turn(Context& context, const Conversation& conversation,
                                 const std::optional<AnswerForm>& form, Wanted* wanted);

// The prompt alone: its tokens, or its text.
std::vector<engine::Token> prompt_of(Context& context, const Conversation& conversation);
std::string prompt_text_of(Context& context, const Conversation& conversation);

}  // namespace troika::server
