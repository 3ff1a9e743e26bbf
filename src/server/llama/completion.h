// Serves /completion, which llama.cpp's own clients ask for.
#pragma once

#include "server/context.h"

namespace troika::server {

void serve_completion(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body);

}  // namespace troika::server
