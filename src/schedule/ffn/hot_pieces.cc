#include "schedule/ffn/hot_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"

namespace troika::schedule {
namespace {

using model::Op;

// Returns the place of a product among some ops, or their end.
const Op* find_product(std::span<const Op> ops, model::WeightId weight) {
  return std::find_if(ops.data(), ops.data() + ops.size(), [&](const Op& op) {
    return op.kind == model::OpKind::kLinear && op.weight == weight;
  });
}

const model::HotFfn* hot_ffn_of(const lanes::Subgraph& subgraph, const weights::HotNeurons& hot) {
  for (const Op& op : subgraph.ops) {
    const model::HotFfn* const found =
        op.kind == model::OpKind::kLinear ? hot.find(op.weight) : nullptr;
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::vector<Piece> hot_pieces(const lanes::Subgraph& subgraph, const weights::HotNeurons& hot,
                              int lane, int hot_lane) {
  const model::HotFfn* const ffn = hot_ffn_of(subgraph, hot);
  if (ffn == nullptr) return {};
  const std::span<const Op> ops = subgraph.ops;
  const Op* const end = ops.data() + ops.size();
  const Op* const first =
      std::min(find_product(ops, ffn->whole.gate), find_product(ops, ffn->whole.up));
  const Op* const behind = find_product(ops, ffn->whole.down) + 1;
  const auto n_behind = static_cast<size_t>(end - behind);
  if (find_product(ops, ffn->whole.gate) == end || n_behind + 1 != ffn->join.size()) {
    throw Error(fmt::format(
        "Hot neurons are a part of a whole feed-forward block, but the plan cuts '{}'. Leave that "
        "cut out, or ‹neuron-hot›.",
        subgraph.name));
  }
  std::vector<Piece> pieces;
  std::vector<int> begin;
  const auto add = [&](std::span<const Op> some, const char* name, int on,
                       std::vector<int> waits_for) {
    Piece piece{subgraph, on, std::move(waits_for)};
    piece.subgraph.ops = some;
    piece.subgraph.name = name;
    pieces.push_back(std::move(piece));
    return static_cast<int>(pieces.size()) - 1;
  };
  if (first != ops.data()) begin = {add({ops.data(), first}, "norm", lane, {})};
  const int hot_piece = add(ffn->ops, "hot", hot_lane, begin);
  pieces.back().subgraph.blueprint = &hot.blueprint();
  pieces.back().weights = &hot.weights();
  const int others = add({first, behind}, subgraph.name, lane, begin);
  add(ffn->join, "merge", lane, {hot_piece, others});
  pieces.back().subgraph.blueprint = &hot.blueprint();
  return pieces;
}

}  // namespace troika::schedule
