// The time of day, as it is written to files.
#pragma once

#include <string>

namespace troika {

// Returns the present time as "2026-01-31T23:59:59Z".
std::string utc_now();

}  // namespace troika
