// Checks whether a client may ask. All functions throw Refused.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"

namespace troika::server {

// Refuses requests whose "Host" is neither an address, nor localhost, nor one of the names. A page
// in somebody's browser could let a name of its own point to this machine (DNS rebinding); that
// name stands in "Host".
void check_host(const http::Request& request, const std::vector<std::string>& names);

// Refuses requests without one of the keys in "Authorization: Bearer" or "x-api-key". Returns the
// key, or an empty text if the server has no keys.
std::string check_key(const http::Request& request, const std::vector<std::string>& keys);

// Refuses bodies whose type is not JSON: a page can send forms to other servers without asking, and
// those have other types.
void check_type(const http::Request& request);

}  // namespace troika::server
