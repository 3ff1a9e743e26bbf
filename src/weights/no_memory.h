// The error for memory that cannot be had for a form of the weights.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace troika::weights {

// Returns "There is no memory for 1.5 MB" and `of_what`, which says what needs it and what to do.
Error no_memory(size_t bytes, const std::string& of_what);

}  // namespace troika::weights
