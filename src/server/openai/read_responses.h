// Makes a conversation of a request of OpenAI's "responses".
#pragma once

#include <optional>

#include "server/calls/turn.h"

namespace troika::server {

// Reads instructions, input, tools and tool_choice. Throws Refused.
Conversation read_responses(Fields& fields);

// Reads the form of the answer from the field "text", if the request asks for one.
std::optional<AnswerForm> read_text_form(Fields& fields);

}  // namespace troika::server
