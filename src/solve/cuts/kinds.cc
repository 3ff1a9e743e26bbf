#include "solve/cuts/kinds.h"

#include <algorithm>
#include <string_view>

#include "solve/profile/op_shapes.h"

namespace troika::solve {

KindKey key_of(const lanes::Subgraph& subgraph, const weights::Store& weights) {
  KindKey key;
  for (const model::Op& op : subgraph.ops) {
    // The key leaves out types of keys and values, because all blocks that are cut have the same.
    // A window stands where the number of positions seen does, and is part of the key.
    key.push_back(
        shape_of(*subgraph.blueprint, op, weights, tensor::Type::kF16, {}, /*context=*/1));
    key.back().context = op.window;
  }
  return key;
}

std::vector<SubgraphKind> kinds_of(const std::vector<lanes::Subgraph>& subgraphs,
                                   const weights::Store& weights) {
  std::vector<SubgraphKind> kinds;
  for (const lanes::Subgraph& subgraph : subgraphs) {
    KindKey key = key_of(subgraph, weights);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const SubgraphKind& other) {
      return std::string_view(other.first.name) == subgraph.name && other.key == key;
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), SubgraphKind{subgraph, std::move(key), 0});
    }
    ++kind->n;
  }
  return kinds;
}

}  // namespace troika::solve
