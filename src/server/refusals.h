// Writes refusals in the form of each interface.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"
#include "server/failure.h"
#include "server/fields.h"

namespace troika::server {

// Returns an error's text as a client is told it, with the server's options in place of marks (see
// base/option_names.h).
std::string for_clients(std::string_view why);

// Returns the response of a refusal. The request's path tells which interface it is for.
http::Response refusal_response(const std::string& path, const Refused& refused);

// Returns the response of an answer that failed, in the form that most interfaces share.
http::Response failure_response(const Failure& failure);

// Returns the name of an error, e.g. "invalid_request_error" for 400.
const char* error_type(int status);

// Returns what a client is told that asks for an unknown path. Some paths are known from other
// servers, and get a sentence of their own.
std::string why_unknown(const std::string& path);

}  // namespace troika::server
