#include "schedule/shadow.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace troika::schedule {
namespace {

// Says whether an op belongs to the products of one input that stand together. A product that reads
// what another one made does not.
bool stands_with(const model::Op& op, const model::Op& first) {
  return is_product(op) && op.inputs[0] == first.inputs[0];
}

}  // namespace

bool keeps_outliers(int block, int n_blocks, int prune_percent) {
  TROIKA_ASSERT(prune_percent >= 0 && prune_percent <= 100);
  if (block < 0 || block >= n_blocks) return false;
  const auto n_kept = static_cast<int>(std::lround(n_blocks * (100 - prune_percent) / 100.0));
  // If their number is odd, one block more is kept at the beginning.
  return block < (n_kept + 1) / 2 || block >= n_blocks - n_kept / 2;
}

std::vector<Piece> lower_outliers(const lanes::Subgraph& subgraph, int lane,
                                  const OutlierCut& cut) {
  using lanes::Role;
  const std::span<const model::Op> ops = subgraph.ops;
  const auto is_kept = [&](const model::Op& op) { return is_product(op) && cut.keeps(op); };
  if (std::none_of(ops.begin(), ops.end(), is_kept)) return {{subgraph, lane, {}}};
  std::vector<Piece> pieces;
  const auto add = [&](std::span<const model::Op> part, Role role, const char* name, int where,
                       std::vector<int> waits_for) {
    pieces.push_back({{subgraph.blueprint, part, name, role}, where, std::move(waits_for)});
    return static_cast<int>(pieces.size()) - 1;
  };
  bool is_behind_sum = false;
  for (size_t begin = 0; begin < ops.size();) {
    size_t end = begin + 1;
    const bool is_group = is_kept(ops[begin]);
    while (end < ops.size() && (is_group ? stands_with(ops[end], ops[begin])  //
                                         : !is_kept(ops[end]))) {
      ++end;
    }
    const std::span<const model::Op> part = ops.subspan(begin, end - begin);
    std::vector<int> before;
    if (!pieces.empty()) before = {static_cast<int>(pieces.size()) - 1};
    if (is_group) {
      if (cut.has_extraction) {
        before = {add(part, Role::kExtract, "extract", cut.shadow_lane, before)};
      }
      const int product = add(part, cut.has_extraction ? Role::kProduct : Role::kWhole,
                              subgraph.name, lane, before);
      if (cut.reads(part.front())) {
        before = {add(part, Role::kRead, "read", cut.read_lane, before)};
      }
      const int shadow = add(part, Role::kShadow, "shadow", cut.shadow_lane, before);
      add(part, Role::kSum, "sum", cut.shadow_lane, {product, shadow});
      is_behind_sum = true;
    } else {
      // Ops without outliers run where the sum was made, unless there are products among them.
      const bool has_products = std::any_of(part.begin(), part.end(), is_product);
      add(part, Role::kWhole, subgraph.name,
          has_products || !is_behind_sum ? lane : cut.shadow_lane, before);
    }
    begin = end;
  }
  return pieces;
}

}  // namespace troika::schedule
