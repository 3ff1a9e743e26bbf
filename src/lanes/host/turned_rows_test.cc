// Compares products whose rows are brought side by side on the way with those that read rows as
// they stand in the file: they have equal bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/choose.h"
#include "lanes/host/experts/experts.h"
#include "lanes/host/host_lane.h"
#include "lanes/host/test_support.h"
#include "tensor/codec.h"

namespace troika::lanes {
namespace {

constexpr int kTurnedDepth = 512;
constexpr int kMostTurnedTokens = 70;
// Counts the rows of the products. In some of them the last rows are no 16, or none are.
constexpr int kTurnedRows[] = {160, 70, 9};
constexpr int kTurnedExperts = 3, kExpertRows = 48;

// Products of one activation, the second with a bias, and one product of experts.
class ProductsOfRows {
 public:
  explicit ProductsOfRows(tensor::Type type) : type_(type) {
    model::Blueprint& b = blueprint_;
    b.n_experts = kTurnedExperts;
    b.n_experts_used = 1;
    b.values = {{"x", kTurnedDepth, false}, {"routes", 2, false}, {"experts", kExpertRows, false}};
    std::vector<weights::StoredWeight> constants;
    for (const int n_rows : kTurnedRows) {
      b.values.push_back({"y", n_rows, false});
      model::Op op{model::OpKind::kLinear};
      op.inputs[0] = 0;
      op.output = static_cast<model::ValueId>(b.values.size()) - 1;
      op.weight = add_weight(n_rows, &constants);
      op.layer = 0;
      b.ops.push_back(op);
    }
    model::Op experts{model::OpKind::kExpertLinear};
    experts.inputs = {0, 1, model::kNone};
    experts.output = 2;
    experts.weight = add_weight(kTurnedExperts * kExpertRows, &constants);
    experts.layer = 0;
    b.ops.push_back(experts);
    bias_ = random_floats(static_cast<size_t>(kTurnedRows[1]), 9, 1.0f);
    b.ops[1].bias = static_cast<model::WeightId>(b.weights.size());
    b.weights.push_back({"bias", 0, 1, kTurnedRows[1], 1, 0});
    weights::StoredWeight bias;
    bias.vector = bias_;
    constants.push_back(std::move(bias));
    store_ = std::make_unique<weights::Store>(b, std::move(constants));
    buffers_ = std::make_unique<Buffers>(b, kMostTurnedTokens, 1);
    const std::vector<float> x = random_floats(size_t{kMostTurnedTokens} * kTurnedDepth, 5, 1.0f);
    std::copy(x.begin(), x.end(), buffers_->view(0).floats());
    // One expert has most tokens, and one has few of them.
    for (int t = 0; t < kMostTurnedTokens; ++t) {
      write_route(buffers_->view(1).floats() + 2 * t, 0, {t % 11 == 0 ? 2 : t % 5 / 4, 1.0f});
    }
  }

  // Returns all results of the first n_tokens, the products computed in slices of their columns
  // where `is_cut`.
  std::vector<std::vector<float>> run(const kernels::Table& kernels, int n_threads, int n_tokens,
                                      bool is_cut) {
    HostLane lane(kernels, {{}, n_threads}, plan::Activations::kQ8, plan::Prefill::kSame);
    const std::span<const model::Op> ops = blueprint_.ops;
    constexpr size_t kProducts = std::size(kTurnedRows);
    Subgraph products = {&blueprint_, ops.first(kProducts), "qkv"};
    for (const Range range : is_cut ? std::vector<Range>{{0, 48}, {48}} : std::vector<Range>{{}}) {
      if (is_cut) products.slice.columns.assign(kProducts, range);
      run_once(lane, products, kMostTurnedTokens, n_tokens, *store_, *buffers_);
    }
    const Subgraph experts = {&blueprint_, ops.subspan(kProducts), "ffn"};
    run_once(lane, experts, kMostTurnedTokens, n_tokens, *store_, *buffers_);
    std::vector<std::vector<float>> results;
    for (size_t i = 2; i < blueprint_.values.size(); ++i) {
      const auto value = static_cast<model::ValueId>(i);
      float* const y = buffers_->view(value).floats();
      const int n = n_tokens * buffers_->width(value);
      results.emplace_back(y, y + n);
      std::fill(y, y + n, 0.0f);
    }
    return results;
  }

 private:
  model::WeightId add_weight(int n_rows, std::vector<weights::StoredWeight>* constants) {
    const size_t row_bytes = tensor::row_bytes(type_, kTurnedDepth);
    const auto n = static_cast<size_t>(n_rows);
    const std::vector<float> floats =
        random_floats(n * kTurnedDepth, static_cast<uint32_t>(n_rows), 0.05f);
    std::vector<std::byte>& rows = rows_.emplace_back(n * row_bytes);
    for (size_t row = 0; row < n; ++row) {
      tensor::quantize_row(type_, floats.data() + row * kTurnedDepth, rows.data() + row * row_bytes,
                           kTurnedDepth);
    }
    blueprint_.weights.push_back({"w", 0, n_rows, kTurnedDepth, n_rows, 0});
    weights::StoredWeight constant;
    constant.matrix = {type_, rows.data(), row_bytes, n_rows, kTurnedDepth};
    constants->push_back(std::move(constant));
    return static_cast<model::WeightId>(blueprint_.weights.size()) - 1;
  }

  tensor::Type type_;
  model::Blueprint blueprint_;
  std::vector<std::vector<std::byte>> rows_;
  std::vector<float> bias_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

class TurnedRows : public testing::TestWithParam<tensor::Type> {};

TEST_P(TurnedRows, HaveTheBitsOfRowsOfTheFile) {
  const kernels::Table kernels = kernels::choose(detect_cpu_features()).table;
  kernels::Table as_they_stand = kernels, turned = kernels;
  as_they_stand.turned_from = 0;
  turned.turned_from = 8;
  ProductsOfRows products(GetParam());
  for (const int n_tokens : {1, 4, 5, 7, 8, 9, 33, kMostTurnedTokens}) {
    const auto expected = products.run(as_they_stand, 2, n_tokens, false);
    for (const int n_threads : {1, 3}) {
      for (const bool is_cut : {false, true}) {
        ASSERT_EQ(products.run(turned, n_threads, n_tokens, is_cut), expected)
            << n_tokens << " tokens, " << n_threads << " threads" << (is_cut ? ", cut" : "");
      }
    }
  }
}

std::vector<tensor::Type> block_types() {
  std::vector<tensor::Type> types;
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    if (!tensor::is_float(info.type)) types.push_back(info.type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Every, TurnedRows, testing::ValuesIn(block_types()), [](const auto& info) {
  return std::string(tensor::type_info(info.param).name);
});

}  // namespace
}  // namespace troika::lanes
