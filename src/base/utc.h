// The time of day as files say it.
#pragma once

#include <string>

namespace troika {

// Now, as "2026-01-31T23:59:59Z".
std::string utc_now();

}  // namespace troika
