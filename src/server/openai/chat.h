// Serves /v1/chat/completions, and counts the tokens of prompts.
#pragma once

#include "server/context.h"

namespace troika::server {

// Answers a chat. Throws Refused.
void serve_chat(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                const Json& body);

// Tell how many tokens the prompt of a chat, or of a response, would have. Both throw Refused.
void count_chat(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                const Json& body);
void count_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body);

}  // namespace troika::server
