// A number that tells one model file from another, for side files made of its content.
#pragma once

#include <cstdint>

#include "gguf/file.h"

namespace troika::weights {

// Returns a key of the size, the time of the last change, everything before the weights, and blocks
// sampled all over them; of every shard of a split model.
uint64_t content_key(const gguf::File& file);

}  // namespace troika::weights
