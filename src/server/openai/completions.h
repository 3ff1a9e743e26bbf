// Serves /v1/completions.
#pragma once

#include "server/context.h"

namespace troika::server {

// Answers a request. Throws Refused.
void serve_completions(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                       const Json& body);

}  // namespace troika::server
