// Who may ask. All throw Refused.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"

namespace troika::server {

// A page in somebody's browser reaches servers on the same machine by a name that it lets point
// there (DNS rebinding). The name then stands in "Host": only addresses and localhost are served.
void check_host(const http::Request& request);

// One of the keys must stand in "Authorization: Bearer" or "x-api-key", unless there are none.
// Returns it, or an empty text.
std::string check_key(const http::Request& request, const std::vector<std::string>& keys);

// A form that a page sends elsewhere without asking has another type than JSON.
void check_type(const http::Request& request);

}  // namespace troika::server
