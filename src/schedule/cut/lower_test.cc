#include "schedule/cut/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

using lanes::Range;
using model::OpKind;

struct LoweredModel {
  explicit LoweredModel(const char* name) : hollow(model::get_known(name), "q8_0") {}
  // Returns a subgraph of the first block.
  lanes::Subgraph find(const char* name) const {
    for (const lanes::Subgraph& subgraph : cut_into_subgraphs(blueprint)) {
      if (subgraph.block() == 0 && std::string(subgraph.name) == name) return subgraph;
    }
    return {};
  }
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
};

std::vector<OpKind> kinds_of(const lanes::Subgraph& subgraph) {
  std::vector<OpKind> kinds;
  for (const model::Op& op : subgraph.ops) kinds.push_back(op.kind);
  return kinds;
}

RangeCut rows(std::vector<Range> first, std::vector<Range> second) {
  RangeCut parts(2);
  parts[0] = {.lane = 1, .rows = std::move(first)};
  parts[1] = {.lane = 2, .rows = std::move(second)};
  return parts;
}

std::string refusal(const lanes::Subgraph& subgraph, RangeCut parts) {
  try {
    lower(subgraph, {0, std::move(parts)});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Lower, WhatIsNotCutIsOnePiece) {
  const LoweredModel m("llama-3-8b");
  for (const Cut& cut : {Cut{4}, Cut{4, RangeCut()}}) {
    const std::vector<Piece> pieces = lower(m.find("ffn"), cut);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces[0].lane, 4);
    EXPECT_TRUE(pieces[0].waits_for.empty() && pieces[0].subgraph.slice.is_all());
  }
  const lanes::Subgraph ffn = m.find("ffn");
  const std::vector<Piece> ops = lower(ffn, {4, OpByOp()});
  EXPECT_EQ(ops.size(), ffn.ops.size());
  EXPECT_EQ(ops.back().waits_for, std::vector<int>{static_cast<int>(ops.size()) - 2});
}

// Gate, up and their activation are one piece where they are cut alike. Down and the addition of
// the residual are another.
TEST(Lower, RowsOfProductsAreCutAndTheRestJoinsThem) {
  const LoweredModel m("llama-3-8b");
  const lanes::Subgraph ffn = m.find("ffn");
  const int n = m.blueprint.ffn_width, width = m.blueprint.width;
  const std::vector<Piece> pieces =
      lower(ffn, {0, rows({{0, 0}, {0, 160}, {0, 160}, {0, 1024}},
                          {{0, width}, {160, n}, {160, n}, {1024, width}})});
  ASSERT_EQ(pieces.size(), 6u);
  using Kinds = std::vector<OpKind>;
  // The projection behind attention is not cut, but placed on a lane.
  EXPECT_EQ(kinds_of(pieces[0].subgraph), (Kinds{OpKind::kLinear, OpKind::kAdd}));
  EXPECT_EQ(pieces[0].lane, 2);
  const size_t at = 1;
  EXPECT_EQ(pieces[at].subgraph.ops.back().kind, OpKind::kRmsNorm);
  EXPECT_EQ(pieces[at].lane, 0);
  for (const int p : {1, 2}) {
    const Piece &up = pieces[at + p], &down = pieces[at + 2 + p];
    EXPECT_EQ(kinds_of(up.subgraph), (Kinds{OpKind::kLinear, OpKind::kLinear, OpKind::kGate}));
    EXPECT_EQ(up.lane, p);
    EXPECT_EQ(up.waits_for, std::vector<int>{static_cast<int>(at)});
    const Range range = p == 1 ? Range{0, 160} : Range{160, n};
    EXPECT_EQ(up.subgraph.slice.columns, (std::vector<Range>{range, range, range}));
    EXPECT_EQ(kinds_of(down.subgraph), (Kinds{OpKind::kLinear, OpKind::kAdd}));
    EXPECT_EQ(down.waits_for,
              (std::vector<int>{static_cast<int>(at) + 1, static_cast<int>(at) + 2}));
  }
  EXPECT_EQ(last_of(pieces),
            (std::vector<int>{static_cast<int>(at) + 3, static_cast<int>(at) + 4}));
}

TEST(Lower, AnActivationOfRangesThatDifferWaitsForAllParts) {
  const LoweredModel m("llama-3-8b");
  const int n = m.blueprint.ffn_width, width = m.blueprint.width;
  const std::vector<Piece> pieces =
      lower(m.find("ffn"), {0, rows({{0, 16}, {0, 160}, {0, 176}, {0, 0}},
                                    {{16, width}, {160, n}, {176, n}, {0, width}})});
  const auto gate = std::find_if(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return piece.subgraph.ops.front().kind == OpKind::kGate;
  });
  ASSERT_NE(gate, pieces.end());
  EXPECT_EQ(gate->waits_for.size(), 2u);
  EXPECT_TRUE(gate->subgraph.slice.is_all());
  EXPECT_EQ(pieces.back().lane, 2);  // runs where rows of down are; the first part has none
  EXPECT_EQ(last_of(pieces).size(), 1u);
}

TEST(Lower, EveryOpOfACutSubgraphIsInOneGroupOfPieces) {
  for (const char* name : {"llama-3-8b", "qwen1.5-1.8b", "phi-2", "gemma-2b"}) {
    const LoweredModel m(name);
    for (const lanes::Subgraph& whole : cut_into_subgraphs(m.blueprint)) {
      std::vector<Range> first, second;
      for (const model::Op& op : whole.ops) {
        if (op.kind != OpKind::kLinear) continue;
        const int n = m.blueprint.weights[static_cast<size_t>(op.weight)].n_rows;
        first.push_back({0, 16});
        second.push_back({16, n});
      }
      if (first.empty()) continue;
      const model::Op* next = whole.ops.data();
      for (const Piece& piece : lower(whole, {0, rows(first, second)})) {
        if (piece.lane == 2) {
          EXPECT_EQ(piece.subgraph.ops.data() + piece.subgraph.ops.size(), next);
          continue;
        }
        EXPECT_EQ(piece.subgraph.ops.data(), next) << name << ", " << whole.name;
        next += piece.subgraph.ops.size();
      }
      EXPECT_EQ(next, whole.ops.data() + whole.ops.size());
    }
  }
}

TEST(Lower, TokensGoThroughTheWholeSubgraphAndHeadsThroughAttention) {
  const LoweredModel m("llama-3-8b");
  RangeCut parts(2);
  parts[0] = {.lane = 1, .tokens = {0, 24}};
  parts[1] = {.lane = 0, .tokens = {24}};
  std::vector<Piece> pieces = lower(m.find("ffn"), {0, parts});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_TRUE(pieces[0].waits_for.empty() && pieces[1].waits_for.empty());
  EXPECT_EQ(pieces[0].lane, 1);
  EXPECT_EQ(pieces[1].subgraph.slice.tokens, Range{24});
  parts[0] = {.lane = 1, .heads = {0, 3}};
  parts[1] = {.lane = 0, .heads = {3, m.blueprint.n_kv_heads}};
  pieces = lower(m.find("attention"), {0, parts});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].subgraph.slice.heads, (Range{0, 3}));
  EXPECT_EQ(last_of(pieces), (std::vector<int>{0, 1}));
}

TEST(Lower, PartsThatDoNotMakeUpASubgraphAreRefusedInASentence) {
  const LoweredModel m("llama-3-8b");
  const lanes::Subgraph qkv = m.find("qkv"), attention = m.find("attention");
  const int n = m.blueprint.width, n_kv = m.blueprint.kv_width();
  const Range q = {16, n}, kv = {16, n_kv}, few = {0, 16};
  EXPECT_EQ(refusal(qkv, rows({few, few, few}, {q, kv, kv})), "accepted");
  const auto says = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  EXPECT_TRUE(says(refusal(qkv, rows({few, few, few}, {q, kv, {32, n_kv}})), "make up 'attn_v'"));
  EXPECT_TRUE(says(refusal(qkv, rows({few, few, few}, {{0, n}, kv, kv})), "make up 'attn_q'"));
  EXPECT_TRUE(says(refusal(qkv, rows({{0, 8}, few, few}, {{8, n}, kv, kv})), "multiple of 16"));
  EXPECT_TRUE(says(refusal(qkv, rows({few, few}, {q, kv})), "too few"));
  EXPECT_TRUE(says(refusal(qkv, rows({few, few, few, few}, {q, kv, kv, kv})), "too many"));
  RangeCut overlapping = rows({few, few, few}, {q, kv, kv});
  overlapping.push_back({.lane = 0, .tokens = {0, 8}});
  EXPECT_TRUE(says(refusal(qkv, overlapping), "make up 'attn_q'"));
  overlapping[0].tokens = overlapping[1].tokens = {8};
  EXPECT_EQ(refusal(qkv, overlapping), "accepted");
  EXPECT_TRUE(says(refusal(qkv, RangeCut{{.lane = 0, .tokens = {1}}}), "each token once"));
  EXPECT_TRUE(says(refusal(qkv, RangeCut{{.lane = 0, .heads = {0, 2}}}), "only attention"));
  EXPECT_TRUE(says(refusal(attention, RangeCut{{.lane = 0, .heads = {0, 2}}}), "each of 8 heads"));
  EXPECT_TRUE(says(refusal(attention, RangeCut{{.lane = 0, .tokens = {0, 8}}, {.tokens = {8}}}),
                   "more than heads"));
}

}  // namespace
}  // namespace troika::schedule
