// Makes a conversation of a request of Anthropic's interface.
#pragma once

#include "server/reading/conversation.h"

namespace troika::server {

// Reads system, messages, tools and tool_choice. Throws Refused.
Conversation read_messages(Fields& fields);

}  // namespace troika::server
