// Compares int8 products of prompts on the host lane with the plain formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/choose.h"
#include "lanes/host/host_lane.h"
#include "lanes/host/test_support.h"

namespace troika::lanes {
namespace {

constexpr int kDepth = 150;
constexpr int kMostTokens = 40;
constexpr int kRows[] = {70, 23};

// A graph with two products of one activation, the second with a bias.
class TwoProducts {
 public:
  explicit TwoProducts(const weights::Int8Packing& packing = {}) {
    model::Blueprint& b = blueprint_;
    b.values = {{"x", kDepth, false}, {"a", kRows[0], false}, {"b", kRows[1], false}};
    std::vector<weights::StoredWeight> constants;
    for (size_t i = 0; i < 2; ++i) {
      const auto n = static_cast<size_t>(kRows[i] * kDepth);
      floats_.push_back(random_floats(n, static_cast<uint32_t>(i), 0.05f));
      b.weights.push_back({i == 0 ? "a.weight" : "b.weight", 0, kRows[i], kDepth, kRows[i], 0});
      weights::StoredWeight constant;
      constant.matrix = {tensor::Type::kF32, reinterpret_cast<std::byte*>(floats_[i].data()),
                         kDepth * sizeof(float), kRows[i], kDepth};
      constants.push_back(std::move(constant));
      model::Op op{model::OpKind::kLinear};
      op.layer = 0;
      op.inputs[0] = 0;
      op.output = static_cast<model::ValueId>(i) + 1;
      op.weight = static_cast<model::WeightId>(i);
      b.ops.push_back(op);
    }
    bias_ = random_floats(static_cast<size_t>(kRows[1]), 9, 1.0f);
    b.weights.push_back({"b.bias", 0, 1, kRows[1], 1, 0});
    b.ops[1].bias = 2;
    weights::StoredWeight bias;
    bias.vector = bias_;
    constants.push_back(std::move(bias));
    store_ = std::make_unique<weights::Store>(b, std::move(constants));
    const model::WeightId ids[] = {0, 1};
    store_->pack_int8(ids, 2, {}, packing);
    buffers_ = std::make_unique<Buffers>(b, kMostTokens, 1);
    const std::vector<float> x = random_floats(kMostTokens * kDepth, 5, 1.0f);
    std::copy(x.begin(), x.end(), buffers_->view(0).floats());
    for (int t = 0; t < kMostTokens; ++t) {  // gives some tokens many outliers, and some few
      buffers_->view(0).floats()[t * kDepth + 7] *= 60;
      if (t % 3 == 0) buffers_->view(0).floats()[t * kDepth + kDepth - 1] *= 200;
    }
  }

  // Returns both results, each (n_tokens, rows).
  std::vector<std::vector<float>> run(const Int8Rule& rule, int n_threads, int n_tokens,
                                      int n_built = kMostTokens) {
    const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
    const Int8Rules rules(3, rule);
    HostLane lane(kernels.table, {{}, n_threads}, plan::Activations::kQ8, plan::Prefill::kInt8,
                  &rules);
    const Subgraph subgraph = {&blueprint_, blueprint_.ops, "qkv"};
    run_once(lane, subgraph, n_built, n_tokens, *store_, *buffers_);
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 2; ++i) {
      const float* y = buffers_->view(i + 1).floats();
      results.emplace_back(y, y + n_tokens * kRows[i]);
    }
    return results;
  }

  // Computes c = clamp(round(x / s)); y = s * scale * sum(c * w) + bias + scale * sum(r * w).
  std::vector<std::vector<float>> formula(const Int8Rule& rule, int n_tokens) const {
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 2; ++i) {
      std::vector<float> y;
      for (int t = 0; t < n_tokens; ++t) {
        for (int r = 0; r < kRows[i]; ++r) y.push_back(element(rule, i, t, r));
      }
      results.push_back(std::move(y));
    }
    return results;
  }

  const kernels::Int8Panels& panels(int i) const { return *store_->int8_panels(i); }

 private:
  int level(int i, int r, int c) const {
    const auto row = static_cast<size_t>(r), channel = static_cast<size_t>(c);
    return panels(i).levels[row / 16 * kernels::int8_strip_bytes(kDepth) + channel / 4 * 64 +
                            row % 16 * 4 + channel % 4];
  }

  float element(const Int8Rule& rule, int i, int t, int r) const {
    const float* x = buffers_->view(0).floats() + t * kDepth;
    float most = rule.range.limit;
    if (!rule.range.is_static) {
      float largest = 0;
      for (int c = 0; c < kDepth; ++c) largest = std::max(largest, std::fabs(x[c]));
      most = std::min(most, largest);
    }
    const float s = most / 127.0f;
    const float weight_scale = panels(i).scales[r];
    int sum = 0;
    float beside = 0;
    bool has_outlier = false;
    for (int c = 0; c < kDepth; ++c) {
      const float rounded = std::nearbyint(x[c] * (127.0f / most));
      const float clamped = std::clamp(rounded, -127.0f, 127.0f);
      sum += static_cast<int>(clamped) * level(i, r, c);
      if (rounded == clamped || !rule.has_shadow) continue;
      has_outlier = true;
      beside = std::fma(x[c] - clamped * s, static_cast<float>(level(i, r, c)), beside);
    }
    float y = static_cast<float>(sum) * s * weight_scale;
    if (i == 1) y += bias_[static_cast<size_t>(r)];
    if (has_outlier) y += beside * weight_scale;
    return y;
  }

  model::Blueprint blueprint_;
  std::vector<std::vector<float>> floats_;
  std::vector<float> bias_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

TEST(N4, ShadowEqualsThePlainFormula) {
  for (const bool one_scale : {false, true}) {
    TwoProducts products({one_scale, {}});
    for (const float limit : {0.1f, 2.0f, 40.0f, 1e6f}) {
      for (const bool is_static : {true, false}) {
        const Int8Rule rule = {Int8Rule::Kind::kLimit, {limit, is_static}, true};
        const auto expected = products.formula(rule, kMostTokens);
        for (const int n_threads : {1, 2, 3, 5}) {
          ASSERT_EQ(products.run(rule, n_threads, kMostTokens), expected)
              << n_threads << " threads, limit " << limit << (is_static ? ", static" : "");
        }
      }
    }
  }
}

TEST(N3, OneScaleForATensorEqualsThePlainFormula) {
  for (const bool one_scale : {false, true}) {
    TwoProducts products({one_scale, {}});
    for (const float limit : {2.0f, 500.0f}) {
      const Int8Rule rule = {Int8Rule::Kind::kLimit, {limit, true}, false};
      EXPECT_EQ(products.run(rule, 2, kMostTokens), products.formula(rule, kMostTokens));
    }
  }
}

TEST(N3, TheWeightCanHaveOneScale) {
  TwoProducts products({true, {}});
  for (int i = 0; i < 2; ++i) {
    for (int r = 1; r < kRows[i]; ++r) {
      EXPECT_EQ(products.panels(i).scales[r], products.panels(i).scales[0]);
    }
  }
  const TwoProducts by_row;
  EXPECT_NE(by_row.panels(0).scales[1], by_row.panels(0).scales[0]);
}

// If weights have 4 bits and one in a hundred has 8, sums are those of the plain formula, and less
// is lost than without outliers.
TEST(P11, Int4WithOutliersEqualsThePlainFormulaAndLosesLessThanWithout) {
  const Int8Rule rule = {Int8Rule::Kind::kLimit, {1e6f, false}};  // gives each token a scale
  const auto exact = TwoProducts().run(rule, 2, kMostTokens);
  std::vector<double> lost;
  for (const double outliers : {0.0, 0.01, 0.05}) {
    TwoProducts products({false, {}, outliers});
    const auto found = products.run(rule, 2, kMostTokens);
    EXPECT_EQ(found, products.formula(rule, kMostTokens));
    double sum = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      for (size_t j = 0; j < found[i].size(); ++j) sum += std::fabs(found[i][j] - exact[i][j]);
    }
    lost.push_back(sum);
  }
  EXPECT_LT(lost[1], lost[0]);
  EXPECT_LT(lost[2], lost[1]);
}

// A shorter chunk in the same executable has the same rows, although a longer one has left its
// lists behind.
TEST(N4, AShorterChunkGivesTheSameRows) {
  TwoProducts products;
  const Int8Rule rule = {Int8Rule::Kind::kLimit, {2.0f, true}, true};
  const auto whole = products.run(rule, 2, kMostTokens);
  for (const int n_tokens : {1, 33, 39}) {
    const auto part = products.run(rule, 2, n_tokens);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::equal(part[i].begin(), part[i].end(), whole[i].begin())) << n_tokens;
    }
  }
}

// Against float, taking outliers out reduces the error by more than an order of magnitude.
TEST(N4, ShadowLosesLittleWhereOneScaleLosesMuch) {
  TwoProducts products;
  const auto error = [&](const Int8Rule& rule) {
    const auto mine = products.run(rule, 1, kMostTokens);
    // With this limit nearly all is computed in float.
    const Int8Rule fine = {Int8Rule::Kind::kLimit, {0.05f, true}, true};
    const auto exact = products.formula(fine, kMostTokens);
    double sum = 0;
    for (size_t j = 0; j < mine[0].size(); ++j) sum += std::pow(mine[0][j] - exact[0][j], 2);
    return std::sqrt(sum / static_cast<double>(mine[0].size()));
  };
  const double plain = error({Int8Rule::Kind::kLimit, {600.0f, true}, false});
  const double shadow = error({Int8Rule::Kind::kLimit, {3.0f, true}, true});
  EXPECT_LT(shadow * 20, plain);
}

TEST(N11, ChannelsFromTheThresholdOnAreTakenOutWhole) {
  TwoProducts products;
  Int8Rule split;
  split.kind = Int8Rule::Kind::kSplit;
  const auto once = products.run(split, 1, kMostTokens);
  EXPECT_EQ(products.run(split, 3, kMostTokens), once);
  const auto exact = products.formula({Int8Rule::Kind::kLimit, {0.05f, true}, true}, kMostTokens);
  double most = 0;
  for (size_t j = 0; j < once[0].size(); ++j) {
    most = std::max<double>(most, std::fabs(once[0][j] - exact[0][j]));
  }
  // The bound allows for 150 roundings of at most half of 6 / 127 with weights of 0.05, which are
  // never all at their worst.
  EXPECT_LT(most, 0.08);
}

TEST(N11, FactorsOfActivationsAndWeightsCancel) {
  std::vector<float> of_weights(kDepth), of_activations(kDepth);
  for (size_t c = 0; c < kDepth; ++c) {
    of_weights[c] = c == 7 ? 64.0f : c == kDepth - 1 ? 128.0f : 1.0f;
    of_activations[c] = 1.0f / of_weights[c];
  }
  TwoProducts smoothed({false, {of_weights.data(), of_weights.data(), nullptr}}), plain;
  Int8Rule rule = {Int8Rule::Kind::kLimit, {6.0f, true}, false, of_activations.data()};
  const auto exact = plain.formula({Int8Rule::Kind::kLimit, {0.05f, true}, true}, kMostTokens);
  const auto mine = smoothed.run(rule, 2, kMostTokens);
  double sum = 0, all = 0;
  for (size_t j = 0; j < mine[0].size(); ++j) {
    sum += std::pow(mine[0][j] - exact[0][j], 2);
    all += std::pow(exact[0][j], 2);
  }
  EXPECT_LT(std::sqrt(sum / all), 0.05);
}

}  // namespace
}  // namespace troika::lanes
