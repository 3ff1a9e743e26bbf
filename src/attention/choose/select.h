// Selects positions by what an estimate says of them (S2). Positions come out in ascending order;
// of equal values the earlier ones are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"

namespace troika::attention {

// Returns how many of n a share is: at least 1, at most n.
size_t count_of_share(double share, size_t n);

// Writes the indices of the k largest values to `out`, which has room for as many as there are
// values: what it holds behind k of them is not said. What is not a number counts
// as largest, so that an estimate hides no such key.
// REQUIRES: k <= values.size().
void select_largest(const kernels::Table& table, std::span<const float> values, size_t k,
                    uint32_t* out);

}  // namespace troika::attention
