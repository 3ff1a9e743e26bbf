// Writes sizes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace troika {

// Returns a text like "1.50 GB", in powers of ten.
std::string bytes_text(uint64_t bytes);

}  // namespace troika
