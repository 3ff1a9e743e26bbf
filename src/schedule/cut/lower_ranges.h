// Cuts subgraphs whose rows, tokens or heads are divided between lanes; others call `lower`.
#pragma once

#include "schedule/cut/lower.h"

namespace troika::schedule {

// Cuts a subgraph as RangeCut describes. REQUIRES: parts is not empty, and nothing of the subgraph
// is cut off already.
std::vector<Piece> lower_ranges(const lanes::Subgraph& subgraph, int lane, const RangeCut& parts);

}  // namespace troika::schedule
