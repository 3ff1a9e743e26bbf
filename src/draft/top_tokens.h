// The likeliest few of a row of logits, without sorting it.
#pragma once

#include <cstddef>
#include <span>

#include "cache/batch.h"

namespace troika::draft {

using cache::Token;

struct TopToken {
  Token token;
  float logit;
};

// Fills `top` with the largest logits, falling, of equals the first; returns how many there are:
// fewer than `top` has room for where the row is shorter. Not-a-number is never chosen. One walk
// over the row at the speed of its memory.
size_t find_top_tokens(std::span<const float> logits, std::span<TopToken> top);

}  // namespace troika::draft
