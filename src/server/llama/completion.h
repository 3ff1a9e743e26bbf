// /completion: what llama.cpp's own clients send.
#pragma once

#include "server/context.h"

namespace troika::server {

void serve_completion(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body);

}  // namespace troika::server
