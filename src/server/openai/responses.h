// Serves /v1/responses without memory: each request brings its whole conversation.
#pragma once

#include "server/context.h"

namespace troika::server {

// Answers a request. Throws Refused.
void serve_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body);

}  // namespace troika::server
