// Turns a subgraph and a cut into pieces: the one way by which a subgraph becomes tasks.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "schedule/cut/piece.h"
#include "schedule/head_pipeline.h"
#include "schedule/shadow.h"

namespace troika::schedule {

// The part of a subgraph that one lane computes.
struct LaneRanges {
  int lane = 0;
  // Has for each product (model::OpKind::kLinear) of the subgraph, in order, the rows of its weight
  // that this part multiplies. They begin at multiples of lanes::Slice::kRowGranularity, and a
  // range may be empty. Empty: all rows of all products.
  std::vector<lanes::Range> rows = {};
  // Rows of the batch, or of the wanted outputs, in the shape of the executable.
  lanes::Range tokens = {};
  // The heads of keys and values that attention computes, with the queries that share them.
  lanes::Range heads = {};
};

// The subgraph stays as it is.
struct Undivided {};
// Every op becomes a piece of its own, one after the other.
struct OpByOp {};
// The parts must make up each op without a gap or an overlap; which form a cut takes follows from
// what they name:
// - heads, of attention: a piece for each part. Tokens of attention are not divided, because each
//   sees the keys of those before it.
// - tokens alone: each part's rows of the batch go through the whole subgraph, and no piece waits
//   for another. Experts can be divided so.
// - rows, and perhaps tokens beside them: the products of one input that stand together are a
//   group, of which each part makes the rectangle of its rows and tokens. What follows element by
//   element stays with the part as long as all it reads is cut alike (the activation of a gate and
//   up). The rest, up to the next group, is one piece on the lane of the cut: it waits for all
//   parts of the group before, and those of the next group wait for it. Products of experts and
//   whatever treats whole rows or heads are such a rest.
using RangeCut = std::vector<LaneRanges>;
// Attention is cut by heads, as a pipeline says.
struct HeadCut {
  const HeadPipeline* pipeline;
};

struct Cut {
  int lane = 0;  // runs what is not divided
  std::variant<Undivided, OpByOp, OutlierCut, RangeCut, HeadCut> by = Undivided();
};

// Cuts a subgraph into pieces, each of which stands behind those it waits for. What follows the
// subgraph waits for all pieces for which no other piece waits. Throws Error for parts that do not
// make up the subgraph.
std::vector<Piece> lower(const lanes::Subgraph& subgraph, const Cut& cut);

// Returns the pieces for which no other piece waits.
std::vector<int> last_of(std::span<const Piece> pieces);

}  // namespace troika::schedule
