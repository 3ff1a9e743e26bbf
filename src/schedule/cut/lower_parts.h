// Subgraphs whose rows, tokens or heads are divided between lanes; `lower` is the door to this.
#pragma once

#include "schedule/cut/lower.h"

namespace troika::schedule {

// As Parts says. REQUIRES: parts is not empty, and nothing of the subgraph is cut off already.
std::vector<Piece> lower_parts(const lanes::Subgraph& subgraph, int lane, const Parts& parts);

}  // namespace troika::schedule
