#include "schedule/shadow.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace troika::schedule {
namespace {

bool is_product(const model::Op& op) { return op.kind == model::OpKind::kLinear; }

// Products of one input stand together; one that reads what another made does not.
bool stands_with(const model::Op& op, const model::Op& first) {
  return is_product(op) && op.inputs[0] == first.inputs[0];
}

}  // namespace

bool keeps_outliers(int block, int n_blocks, int prune_percent) {
  TROIKA_ASSERT(prune_percent >= 0 && prune_percent <= 100);
  if (block < 0 || block >= n_blocks) return false;
  const auto n_kept = static_cast<int>(std::lround(n_blocks * (100 - prune_percent) / 100.0));
  // One more at the beginning where they are odd.
  return block < (n_kept + 1) / 2 || block >= n_blocks - n_kept / 2;
}

std::vector<Piece> cut_for_shadow(const lanes::Subgraph& subgraph) {
  std::vector<Piece> pieces;
  const std::span<const model::Op> ops = subgraph.ops;
  const bool has_products = std::any_of(ops.begin(), ops.end(), is_product);
  if (!has_products) return {{subgraph, true, {}}};
  bool is_behind_sum = false;
  for (size_t begin = 0; begin < ops.size();) {
    size_t end = begin + 1;
    const bool is_group = is_product(ops[begin]);
    while (end < ops.size() && (is_group ? stands_with(ops[end], ops[begin])  //
                                         : !is_product(ops[end]))) {
      ++end;
    }
    lanes::Subgraph part = {subgraph.blueprint, ops.subspan(begin, end - begin), subgraph.name};
    std::vector<int> before;
    if (!pieces.empty()) before = {static_cast<int>(pieces.size()) - 1};
    const auto first = static_cast<int>(pieces.size());
    // What is not a product goes on where the sum was made, or begins where the products will be.
    pieces.push_back({part, is_group || !is_behind_sum, before});
    if (is_group) {
      part.role = lanes::Role::kShadow;
      part.name = "shadow";
      pieces.push_back({part, false, before});
      part.role = lanes::Role::kSum;
      part.name = "sum";
      pieces.push_back({part, false, {first, first + 1}});
      is_behind_sum = true;
    }
    begin = end;
  }
  return pieces;
}

}  // namespace troika::schedule
