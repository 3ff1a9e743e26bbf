#include "lanes/host/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "forge/hollow.h"
#include "lanes/host/host_lane.h"
#include "model/architecture.h"
#include "model/known.h"

namespace troika::lanes {
namespace {

using model::OpKind;

class SlicesTest : public testing::Test {
 protected:
  // Returns a subgraph of the first op of a kind.
  Subgraph op_of(OpKind kind) const {
    const auto at = std::find_if(blueprint_.ops.begin(), blueprint_.ops.end(),
                                 [&](const model::Op& op) { return op.kind == kind; });
    return {&blueprint_, {&*at, 1}, "op"};
  }
  std::string refusal(const Subgraph& subgraph) const {
    try {
      check_slice(subgraph, LaneInfo{"plain", {}});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  const forge::HollowModel hollow_{model::get_known("tiny-llama"), "q8_0"};
  const gguf::File file_ = hollow_.open();
  const model::Blueprint blueprint_ = model::read(file_);
};

TEST_F(SlicesTest, WhatAHostLaneCannotComputeInPartIsRefusedInASentence) {
  for (const OpKind kind : {OpKind::kLinear, OpKind::kGate, OpKind::kAdd, OpKind::kRmsNorm,
                            OpKind::kRope, OpKind::kAttention, OpKind::kEmbed}) {
    const bool is_attention = kind == OpKind::kAttention;
    const bool is_free = kind == OpKind::kLinear || kind == OpKind::kGate || kind == OpKind::kAdd;
    Subgraph subgraph = op_of(kind);
    EXPECT_EQ(refusal(subgraph), "accepted");
    subgraph.slice.columns = {{16, 32}};
    EXPECT_EQ(refusal(subgraph) == "accepted", is_free);
    subgraph.slice = {};
    subgraph.slice.tokens = {3, 9};
    EXPECT_EQ(refusal(subgraph) == "accepted", !is_attention);
    subgraph.slice = {};
    subgraph.slice.heads = {0, 1};
    EXPECT_EQ(refusal(subgraph) == "accepted", is_attention);
  }
}

TEST_F(SlicesTest, ARunOfFewerRowsLeavesLessForTheLastSlices) {
  Subgraph subgraph = op_of(OpKind::kGate);
  subgraph.slice.tokens = {4, 12};
  const TokenSlice slice(subgraph);
  std::vector<cache::Token> tokens(16);
  const std::vector<float> cosines(16 * 1024);
  lanes::Run run;
  run.rope_cos = cosines.data();
  for (const auto& [n, n_own] : {std::pair{16, 8}, {10, 6}, {5, 1}, {4, 0}, {1, 0}}) {
    run.n_tokens = n;
    run.tokens = std::span<const cache::Token>(tokens).first(static_cast<size_t>(n));
    const lanes::Run own = slice.of(run);
    EXPECT_EQ(own.n_tokens, n_own);
    EXPECT_EQ(slice.is_empty(own), n_own == 0);
    EXPECT_EQ(own.tokens.size(), static_cast<size_t>(n_own));
    if (n_own > 0) {
      EXPECT_EQ(own.tokens.data(), tokens.data() + 4);
      EXPECT_EQ((own.rope_cos - run.rope_cos) % 4, 0);
      EXPECT_GT(own.rope_cos, run.rope_cos);
    }
  }
  EXPECT_EQ(slice.n_rows(64), 8);
  EXPECT_EQ(slice.n_rows(8), 4);
}

// The head is cut by wanted outputs, which stand behind the selection. The selection reads rows of
// the whole batch.
TEST_F(SlicesTest, TheHeadIsSlicedByWantedOutputs) {
  Subgraph subgraph = op_of(OpKind::kSelect);
  subgraph.slice.tokens = {2};
  const TokenSlice slice(subgraph);
  const std::vector<int> outputs = {7, 8, 9};
  lanes::Run run;
  run.n_tokens = 10;
  run.n_outputs = 3;
  run.output_rows = outputs;
  const lanes::Run own = slice.of(run);
  EXPECT_EQ(own.n_tokens, 10);
  ASSERT_EQ(own.n_outputs, 1);
  EXPECT_EQ(own.output_rows.front(), 9);
}

}  // namespace
}  // namespace troika::lanes
