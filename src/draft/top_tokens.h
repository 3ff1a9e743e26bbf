// Finds the few likeliest tokens of a row of logits without sorting the row.
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

// Fills `top` with the largest logits in falling order, of equal ones the first. Returns how many
// there are: where the row is shorter than `top`, fewer than `top` has room for. Not-a-number is
// never chosen. It walks over the row once, at the speed of memory.
size_t find_top_tokens(std::span<const float> logits, std::span<TopToken> top);

}  // namespace troika::draft
