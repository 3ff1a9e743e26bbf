// Computes a number that tells one model file from another, for side files made of its content.
#pragma once

#include <cstdint>

#include "gguf/file.h"

namespace troika::weights {

// Returns a key of a model's size, the time of its last change, everything before the weights, and
// blocks sampled all over them. Of a split model the key is of every shard.
uint64_t content_key(const gguf::File& file);

}  // namespace troika::weights
