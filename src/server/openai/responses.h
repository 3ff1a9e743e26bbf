// /v1/responses, without a memory: each request brings its whole conversation.
#pragma once

#include "server/context.h"

namespace troika::server {

// Throws Refused.
void serve_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body);

}  // namespace troika::server
