// Refusals in the words of each interface.
#pragma once

#include <string>

#include "http/message.h"
#include "server/fields.h"

namespace troika::server {

// `path`: that of the request, which tells the interface.
http::Response refusal_response(const std::string& path, const Refused& refused);

// "invalid_request_error" for 400.
const char* error_type(int status);

// What is said for a path that nobody answers: many are known from other servers.
std::string why_unknown(const std::string& path);

}  // namespace troika::server
