// Serves /v1/messages and /v1/messages/count_tokens, which Anthropic's clients use.
#pragma once

#include "server/context.h"

namespace troika::server {

// Both functions answer a request, and throw Refused.
void serve_messages(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body);
void serve_count_tokens(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                        const Json& body);

}  // namespace troika::server
