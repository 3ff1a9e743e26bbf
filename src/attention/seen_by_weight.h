// Counts what the tokens of a tile see where positions go by their weight, without attending.
#pragma once

#include <array>

#include "attention/choose/estimate.h"

namespace troika::attention {

// Returns how many positions each token of the tile that begins at `begin` sees, itself too, where
// those are kept that weigh more than `above` times the mean. REQUIRES: what mark_tiles requires of
// one tile, whose first token is the first of the queries.
std::array<size_t, kTileTokens> seen_by_weight(const kernels::Table& table,
                                               const Positions& positions, const Queries& queries,
                                               size_t begin, double above);

}  // namespace troika::attention
