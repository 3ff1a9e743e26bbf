#include "schedule/cut/lower.h"

#include "schedule/cut/lower_ranges.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

std::vector<Piece> lower_ops(const lanes::Subgraph& subgraph, int lane) {
  std::vector<Piece> pieces;
  for (const model::Op& op : subgraph.ops) {
    pieces.push_back({{subgraph.blueprint, {&op, 1}, op_name(*subgraph.blueprint, op)}, lane, {}});
    if (pieces.size() > 1) pieces.back().waits_for = {static_cast<int>(pieces.size()) - 2};
  }
  return pieces;
}

}  // namespace

std::vector<Piece> lower(const lanes::Subgraph& subgraph, const Cut& cut) {
  if (const auto* outliers = std::get_if<OutlierCut>(&cut.by)) {
    return lower_outliers(subgraph, cut.lane, *outliers);
  }
  if (const auto* parts = std::get_if<RangeCut>(&cut.by); parts != nullptr && !parts->empty()) {
    return lower_ranges(subgraph, cut.lane, *parts);
  }
  if (const auto* heads = std::get_if<HeadCut>(&cut.by)) {
    return lower_heads(subgraph, cut.lane, *heads->pipeline);
  }
  if (std::holds_alternative<OpByOp>(cut.by)) return lower_ops(subgraph, cut.lane);
  return {{subgraph, cut.lane, {}}};
}

std::vector<int> last_of(std::span<const Piece> pieces) {
  std::vector<char> is_last(pieces.size(), 1);
  for (const Piece& piece : pieces) {
    for (const int other : piece.waits_for) is_last[static_cast<size_t>(other)] = 0;
  }
  std::vector<int> last;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (is_last[i]) last.push_back(static_cast<int>(i));
  }
  return last;
}

}  // namespace troika::schedule
