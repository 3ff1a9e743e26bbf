// Prepares one turn of a conversation: makes of messages, tools and a wanted form a prompt, a
// grammar and a reader of the answer.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "grammar/pool.h"
#include "server/calls/shape.h"
#include "server/context.h"
#include "server/reading/conversation.h"

namespace troika::server {

// The grammar that an answer's text is held to if the answer calls no tool.
struct AnswerForm {
  grammar::Format format;
  std::string text;
};

// Reads "response_format", or "grammar", "json_schema" or "regex". Throws Refused.
std::optional<AnswerForm> read_form(Fields& fields);

// Returns what an answer may be behind its thoughts: text, or text of a form, and calls of the
// conversation's tools. `shape` is null if there are no calls.
grammar::Expr answer_expr(grammar::Pool* pool, const Conversation& conversation,
                          const std::optional<AnswerForm>& form, const CallShape* shape);

// Fills in prompt and grammar of what is wanted. Throws Refused.
Answers::MakeReader prepare_turn(Context& context, const Conversation& conversation,
                                 const std::optional<AnswerForm>& form, Wanted* wanted);

// These functions return the prompt alone: its tokens, or its text. `check` is given the number of
// the prompt's bytes before they are encoded, and may throw. Where the messages are very long, it
// is given the number of their bytes too, before the template sees them.
std::vector<engine::Token> prompt_of(const Context& context, const Conversation& conversation,
                                     const std::function<void(size_t)>& check);
std::string prompt_text_of(const Context& context, const Conversation& conversation);

}  // namespace troika::server
