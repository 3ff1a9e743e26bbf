// Finds the different subgraphs of a model: blocks whose ops have equal shapes are looked at once.
#pragma once

#include <vector>

#include "lanes/subgraph.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// What the time of a subgraph depends on, beside lane, rows and positions.
using KindKey = std::vector<plan::OpShape>;
KindKey key_of(const lanes::Subgraph& subgraph, const weights::Store& weights);

struct SubgraphKind {
  lanes::Subgraph first;  // the first of this kind in the model
  KindKey key;
  int n = 0;  // counts the subgraphs of this kind
};

// Returns the kinds in the order in which a pass meets them first.
std::vector<SubgraphKind> kinds_of(const std::vector<lanes::Subgraph>& subgraphs,
                                   const weights::Store& weights);

}  // namespace troika::solve
