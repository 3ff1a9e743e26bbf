// A request of OpenAI's "responses" to a conversation.
#pragma once

#include <optional>

#include "server/calls/turn.h"

namespace troika::server {

// Reads instructions, input, tools and tool_choice. Throws Refused.
Conversation read_responses(Fields& fields);

// "text": the form of the answer, if it asks for one.
std::optional<AnswerForm> read_text_form(Fields& fields);

}  // namespace troika::server
