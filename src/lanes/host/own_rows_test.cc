// Compares runs of a single row, which each worker computes for itself between products, with runs
// of one worker: they have equal bits.
#include "lanes/host/own_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/choose.h"
#include "lanes/host/test_support.h"
#include "tensor/codec.h"

namespace troika::lanes {
namespace {

using model::OpKind;

constexpr tensor::Type kRowType = tensor::Type::kQ8_0;
constexpr int kStreamWidth = 320, kInnerWidth = 544, kMostBlockRows = 3;

// A feed-forward block in the form of a model: what was attended is projected and added, the sum is
// normalised, and what the block makes of it is added, too.
class Block {
 public:
  enum : model::ValueId { kStream, kAttended, kProjected, kNormed, kGate, kUp, kDown };

  Block() {
    blueprint_.values = {{"x", kStreamWidth, false},         {"attended", kStreamWidth, false},
                         {"projected", kStreamWidth, false}, {"normed", kStreamWidth, false},
                         {"gate", kInnerWidth, false},       {"up", kInnerWidth, false},
                         {"down", kStreamWidth, false}};
    push(OpKind::kLinear, {kAttended}, kProjected);
    push(OpKind::kAdd, {kStream, kProjected}, kStream);
    push(OpKind::kRmsNorm, {kStream}, kNormed);
    blueprint_.ops.back().eps = 1e-5f;
    push(OpKind::kLinear, {kNormed}, kGate);
    push(OpKind::kLinear, {kNormed}, kUp);
    push(OpKind::kGate, {kGate, kUp}, kGate);
    push(OpKind::kLinear, {kGate}, kDown);
    push(OpKind::kAdd, {kStream, kDown}, kStream);
    n_ops_ = blueprint_.ops.size();
    // The next block begins with these.
    push(OpKind::kRmsNorm, {kStream}, kNormed);
    push(OpKind::kLinear, {kNormed}, kGate);
    store_ = std::make_unique<weights::Store>(blueprint_, std::move(constants_));
    buffers_ = std::make_unique<Buffers>(blueprint_, kMostBlockRows, 1);
  }

  model::Blueprint& blueprint() { return blueprint_; }
  Subgraph subgraph() const {
    return {&blueprint_, std::span(blueprint_.ops).first(n_ops_), "ffn"};
  }
  std::vector<BoundOp> bind(const Subgraph& subgraph, const kernels::Table& kernels,
                            OwnRows* rows) const {
    std::vector<BoundOp> ops = bind_ops(subgraph, *store_, *buffers_, kernels,
                                        {plan::Activations::kQ8, plan::Prefill::kSame});
    *rows = place_own_rows(subgraph, *buffers_, &ops);
    return ops;
  }

  // Returns what the block makes of random rows. Nothing of an earlier run is left behind.
  std::vector<float> run(const kernels::Table& kernels, plan::Activations activations,
                         int n_threads, int n_rows) const {
    for (size_t i = 0; i < blueprint_.values.size(); ++i) {
      const auto value = static_cast<model::ValueId>(i);
      std::fill_n(buffers_->view(value).floats(), kMostBlockRows * width(value), std::nanf(""));
    }
    for (const model::ValueId value : {kStream, kAttended}) {
      const auto n = static_cast<size_t>(n_rows * kStreamWidth);
      const auto x = random_floats(n, static_cast<uint32_t>(value), 1.0f);
      std::copy(x.begin(), x.end(), buffers_->view(value).floats());
    }
    HostLane lane(kernels, {{}, n_threads}, activations, plan::Prefill::kSame);
    run_once(lane, subgraph(), kMostBlockRows, n_rows, *store_, *buffers_);
    const float* const x = buffers_->view(kStream).floats();
    return {x, x + n_rows * kStreamWidth};
  }

 private:
  void push(OpKind kind, std::vector<model::ValueId> inputs, model::ValueId output) {
    model::Op op{kind};
    op.layer = 0;
    std::copy(inputs.begin(), inputs.end(), op.inputs.begin());
    op.output = output;
    if (kind == OpKind::kLinear) op.weight = add_matrix(width(output), width(inputs[0]));
    if (kind == OpKind::kRmsNorm) op.weight = add_vector(width(output));
    blueprint_.ops.push_back(op);
  }
  int width(model::ValueId value) const {
    return blueprint_.values[static_cast<size_t>(value)].width;
  }
  model::WeightId add_matrix(int n_rows, int k) {
    const auto n = static_cast<size_t>(n_rows), length = static_cast<size_t>(k);
    const size_t row_bytes = tensor::row_bytes(kRowType, length);
    const auto floats = random_floats(n * length, static_cast<uint32_t>(constants_.size()), 0.1f);
    std::vector<std::byte>& rows = rows_.emplace_back(n * row_bytes);
    for (size_t row = 0; row < n; ++row) {
      tensor::quantize_row(kRowType, floats.data() + row * length, rows.data() + row * row_bytes,
                           length);
    }
    weights::StoredWeight constant;
    constant.matrix = {kRowType, rows.data(), row_bytes, n_rows, k};
    return add({"w", 0, n_rows, k, n_rows, 0}, std::move(constant));
  }
  model::WeightId add_vector(int n) {
    weights::StoredWeight constant;
    constant.vector = random_floats(static_cast<size_t>(n), 77, 1.0f);
    return add({"norm", 0, 1, n, 1, 0}, std::move(constant));
  }
  model::WeightId add(model::Weight weight, weights::StoredWeight constant) {
    blueprint_.weights.push_back(std::move(weight));
    constants_.push_back(std::move(constant));
    return static_cast<model::WeightId>(constants_.size()) - 1;
  }

  model::Blueprint blueprint_;
  size_t n_ops_ = 0;
  std::vector<weights::StoredWeight> constants_;
  std::vector<std::vector<std::byte>> rows_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

std::vector<int> outputs_of(const std::vector<BoundOp>& ops) {
  std::vector<int> places;
  for (const BoundOp& bound : ops) places.push_back(bound.own_places.output);
  return places;
}

std::vector<size_t> meetings_of(const std::vector<BoundOp>& ops) {
  std::vector<size_t> meetings;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].own_places.meets_before) meetings.push_back(i);
  }
  return meetings;
}

class OwnRowsTest : public testing::Test {
 protected:
  static constexpr int kShared = OwnPlaces::kShared;
  const kernels::Table kernels_ = kernels::choose(detect_cpu_features()).table;
  Block block_;
};

TEST_F(OwnRowsTest, HaveTheBitsOfOneWorker) {
  for (const auto activations : {plan::Activations::kQ8, plan::Activations::kF32}) {
    for (int n_rows = 1; n_rows <= kMostBlockRows; ++n_rows) {
      const std::vector<float> expected = block_.run(kernels_, activations, 1, n_rows);
      for (const int n_threads : {2, 3, 7, 40}) {
        ASSERT_EQ(block_.run(kernels_, activations, n_threads, n_rows), expected)
            << n_rows << " rows, " << n_threads << " threads";
      }
    }
  }
}

TEST_F(OwnRowsTest, WorkersMeetBehindProductsAlone) {
  OwnRows rows;
  const std::vector<BoundOp> ops = block_.bind(block_.subgraph(), kernels_, &rows);
  ASSERT_TRUE(rows.are_there);
  EXPECT_EQ(meetings_of(ops), (std::vector<size_t>{1, 5, 7}));
  const std::vector<int> outputs = outputs_of(ops);
  for (const size_t product : {0, 3, 4, 6}) EXPECT_EQ(outputs[product], kShared) << product;
  for (const size_t own : {1, 2, 5}) EXPECT_NE(outputs[own], kShared) << own;
  // The block's result is for others, who may be anywhere.
  EXPECT_EQ(outputs[7], kShared);
  EXPECT_TRUE(ops[7].own_places.shares_elements);
  // Each op reads what the last one before it has made of a value.
  const auto expect_inputs = [&](size_t op, std::vector<int> places) {
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(ops[op].own_places.inputs[i], places[i]) << op << ", " << i;
    }
  };
  expect_inputs(0, {kShared});
  expect_inputs(1, {kShared, kShared});
  expect_inputs(2, {outputs[1]});
  expect_inputs(3, {outputs[2]});
  expect_inputs(4, {outputs[2]});
  expect_inputs(5, {kShared, kShared});
  expect_inputs(6, {outputs[5]});
  expect_inputs(7, {outputs[1], kShared});
  EXPECT_EQ(rows.n_floats, size_t{2 * kStreamWidth + kInnerWidth});
  EXPECT_LE(rows.bytes(),
            most_own_row_bytes(block_.blueprint(), form_bytes(InputForm::kSpread, kInnerWidth)));
}

TEST_F(OwnRowsTest, AValueThatOthersReadIsShared) {
  // A later block reads the normalised row before it is written again.
  block_.blueprint().ops[8].inputs[0] = Block::kNormed;
  OwnRows rows;
  const std::vector<BoundOp> ops = block_.bind(block_.subgraph(), kernels_, &rows);
  ASSERT_TRUE(rows.are_there);
  EXPECT_EQ(outputs_of(ops)[2], kShared);
  // One worker writes it, so that all wait for it.
  EXPECT_EQ(meetings_of(ops), (std::vector<size_t>{1, 3, 5, 7}));
}

TEST_F(OwnRowsTest, WorkersMeetBeforeTheyOverwriteWhatOthersMayStillRead) {
  // Each worker adds what was projected, and a product writes there again.
  block_.blueprint().ops[3].output = Block::kProjected;
  OwnRows rows;
  EXPECT_EQ(meetings_of(block_.bind(block_.subgraph(), kernels_, &rows)),
            (std::vector<size_t>{1, 3, 5, 7}));
  // One worker alone reads what was projected, because others want what it makes of it.
  block_.blueprint().ops[1].inputs[1] = Block::kAttended;
  block_.blueprint().ops[2].inputs[0] = Block::kProjected;
  block_.blueprint().ops[3].inputs[0] = Block::kAttended;
  block_.blueprint().ops[4].inputs[0] = Block::kAttended;
  block_.blueprint().ops[8].inputs[0] = Block::kNormed;
  EXPECT_EQ(meetings_of(block_.bind(block_.subgraph(), kernels_, &rows)),
            (std::vector<size_t>{2, 3, 5, 7}));
}

TEST_F(OwnRowsTest, WhatOnlyTheseOpsReadStaysWithTheWorkers) {
  // Behind the last block nobody writes these values again.
  block_.blueprint().ops.resize(8);
  OwnRows rows;
  const std::vector<int> outputs = outputs_of(block_.bind(block_.subgraph(), kernels_, &rows));
  for (const size_t own : {1, 2, 5}) EXPECT_NE(outputs[own], kShared) << own;
  EXPECT_EQ(outputs[7], kShared);
}

TEST_F(OwnRowsTest, WhatIsRotatedInPlaceIsShared) {
  block_.blueprint().ops[2].output = Block::kStream;
  block_.blueprint().ops[3].kind = OpKind::kRope;
  block_.blueprint().ops[3].inputs[0] = block_.blueprint().ops[3].output = Block::kStream;
  OwnRows rows;
  const std::vector<BoundOp> ops = block_.bind(block_.subgraph(), kernels_, &rows);
  ASSERT_TRUE(rows.are_there);
  EXPECT_NE(outputs_of(ops)[1], kShared);
  EXPECT_EQ(outputs_of(ops)[2], kShared);
  EXPECT_EQ(outputs_of(ops)[3], kShared);
}

TEST_F(OwnRowsTest, PartsOfSubgraphsAndOpsOfNoModelShareAllRows) {
  OwnRows rows;
  Subgraph part = block_.subgraph();
  part.slice.tokens = {0, 1};
  block_.bind(part, kernels_, &rows);
  EXPECT_FALSE(rows.are_there);
  EXPECT_EQ(rows.bytes(), 0u);

  const std::vector<model::Op> copies = block_.blueprint().ops;
  Subgraph elsewhere = block_.subgraph();
  elsewhere.ops = copies;
  block_.bind(elsewhere, kernels_, &rows);
  EXPECT_FALSE(rows.are_there);
}

}  // namespace
}  // namespace troika::lanes
