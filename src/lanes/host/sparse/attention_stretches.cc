#include "lanes/host/sparse/attention_stretches.h"

#include <algorithm>

#include "attention/choose/estimate.h"

namespace troika::lanes {
namespace {

static_assert(attention::kTileTokens == plan::kAttentionTile);
static_assert(attention::kLeastPositions == plan::PromptAttention::kLeastFrom);

// Says whether a whole tile begins at a token: the run then has all of the tile's tokens, one
// behind the other.
bool begins_tile(const BoundAttention& attention, const Run& run, Tokens together, size_t token) {
  return position_of(run, token) % attention::kTileTokens == 0 &&
         token + attention::kTileTokens <= together.last &&
         position_of(run, token) >= static_cast<size_t>(attention.sparse.from) &&
         position_of(run, token + attention::kTileTokens - 1) ==
             position_of(run, token) + attention::kTileTokens - 1;
}

}  // namespace

size_t position_of(const Run& run, size_t token) { return run.visible[token].size() - 1; }

size_t most_seen(const Run& run) {
  size_t most = 0;
  for (const cache::VisibleSlots& visible : run.visible) most = std::max(most, visible.size());
  return most;
}

Stretch stretch_of(const BoundAttention& attention, const Run& run, Tokens together) {
  const bool by_tile = attention.sparse.goes_by_tile();
  const auto is_sparse = [&](size_t token) {
    if (by_tile) return begins_tile(attention, run, together, token);
    return position_of(run, token) >= static_cast<size_t>(attention.sparse.from);
  };
  const bool first_is = is_sparse(together.first);
  const size_t step = first_is && by_tile ? attention::kTileTokens : 1;
  size_t last = together.first + step;
  while (last < together.last && is_sparse(last) == first_is) last += step;
  return {{together.first, last}, first_is};
}

}  // namespace troika::lanes
