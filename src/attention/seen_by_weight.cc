#include "attention/seen_by_weight.h"

#include <vector>

#include "attention/areas.h"
#include "attention/choose/lists.h"

namespace troika::attention {

std::array<size_t, kTileTokens> seen_by_weight(const kernels::Table& table,
                                               const Positions& positions, const Queries& queries,
                                               size_t begin, double above) {
  const EstimateRoom room = {queries.head_size, queries.n_group, 1};
  Workspace workspace(room.bytes());
  std::vector<float> marks(begin + kTileTokens);
  std::vector<uint32_t> list(begin + kTileTokens);
  mark_tiles(table, positions, queries, begin, above, room, workspace.get(), marks.data(),
             marks.size());
  std::array<size_t, kTileTokens> n_seen{};
  list_of_marks(begin, marks.data(), list.data(), n_seen);
  return n_seen;
}

}  // namespace troika::attention
