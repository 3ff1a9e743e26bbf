// Tests experts of tokens whose router gives no numbers.
#include "lanes/host/experts/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "kernels/choose.h"
#include "lanes/host/host_lane.h"
#include "lanes/host/test_support.h"

namespace troika::lanes {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A mixture has a router's logits, the experts that they choose, one product of each, and the sum.
class Mixture {
 public:
  static constexpr int kExperts = 37, kUsed = 4, kDepth = 24, kRows = 20, kTokens = 6;
  enum ValueIndex : model::ValueId { kLogits, kRoutes, kInput, kParts, kOutput };

  explicit Mixture(bool normalizes_shares) {
    model::Blueprint& b = blueprint_;
    b.n_experts = kExperts;
    b.n_experts_used = kUsed;
    b.values = {{"logits", kExperts, false},
                {"routes", 2 * kUsed, false},
                {"x", kDepth, false},
                {"parts", kUsed * kRows, false},
                {"sum", kRows, false}};
    b.weights.push_back({"experts.weight", 0, kExperts * kRows, kDepth, kExperts * kRows, 0});
    model::Op route{model::OpKind::kRoute}, product{model::OpKind::kExpertLinear},
        sum{model::OpKind::kExpertSum};
    route.inputs[0] = kLogits;
    route.output = kRoutes;
    route.normalizes_shares = normalizes_shares;
    product.inputs = {kInput, kRoutes, model::kNone};
    product.output = kParts;
    product.weight = 0;
    sum.inputs = {kParts, kRoutes, model::kNone};
    sum.output = kOutput;
    b.ops = {route, product, sum};
    weights::StoredWeight weight;
    weight.matrix = {tensor::Type::kF32, reinterpret_cast<const std::byte*>(floats_.data()),
                     kDepth * sizeof(float), kExperts * kRows, kDepth};
    std::vector<weights::StoredWeight> constants;
    constants.push_back(std::move(weight));
    store_ = std::make_unique<weights::Store>(b, std::move(constants));
    buffers_ = std::make_unique<Buffers>(b, kTokens, 1);
    const std::vector<float> x = random_floats(size_t{kTokens} * kDepth, 5);
    std::copy(x.begin(), x.end(), buffers_->view(kInput).floats());
  }

  void run(const kernels::Table& kernels, int n_threads, const std::vector<float>& logits) {
    std::copy(logits.begin(), logits.end(), buffers_->view(kLogits).floats());
    HostLane lane(kernels, {{}, n_threads}, plan::Activations::kF32, plan::Prefill::kSame);
    const Subgraph subgraph = {&blueprint_, blueprint_.ops, "ffn"};
    run_once(lane, subgraph, kTokens, kTokens, *store_, *buffers_);
  }

  std::vector<float> row(ValueIndex value, int token) const {
    const int width = buffers_->width(value);
    const float* first = buffers_->view(value).floats() + token * width;
    return {first, first + width};
  }

 private:
  model::Blueprint blueprint_;
  const std::vector<float> floats_ = random_floats(size_t{kExperts} * kRows * kDepth, 1);
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

// Returns logits of a token with values that are no numbers, or whose softmax is none.
std::vector<std::vector<float>> bad_logits() {
  std::vector<std::vector<float>> all;
  const std::vector<float> good = random_floats(Mixture::kExperts, 11);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{17}, size_t{Mixture::kExperts - 1}}) {
    for (const float bad : {kNan, -kNan, kInfinity}) {
      all.push_back(good);
      all.back()[at] = bad;
    }
  }
  for (const float bad : {kNan, kInfinity, -kInfinity}) all.emplace_back(Mixture::kExperts, bad);
  return all;
}

void expect_valid_experts(const std::vector<float>& routes) {
  std::set<int32_t> experts;
  for (size_t i = 0; i < routes.size() / 2; ++i) {
    const int32_t expert = read_route(routes.data(), i).expert;
    EXPECT_TRUE(expert >= 0 && expert < Mixture::kExperts) << expert;
    experts.insert(expert);
  }
  EXPECT_EQ(experts.size(), size_t{Mixture::kUsed}) << "an expert was chosen twice";
}

// A share that is no number shows in its token's results. Other tokens keep the bits of theirs.
TEST(Experts, LogitsThatAreNoNumbersShowAndStayWithTheirToken) {
  constexpr int kBadToken = 2;
  const CpuFeatures features = detect_cpu_features();
  const std::vector<float> good = random_floats(size_t{Mixture::kTokens} * Mixture::kExperts, 3);
  for (const kernels::Implementation& implementation : kernels::implementations()) {
    if (!features.has_all(implementation.needs)) continue;
    const kernels::Kernels kernels = kernels::choose(features, implementation.name);
    for (const bool normalizes_shares : {false, true}) {
      Mixture wanted(normalizes_shares), found(normalizes_shares);
      wanted.run(kernels.table, 1, good);
      for (const std::vector<float>& bad : bad_logits()) {
        std::vector<float> logits = good;
        std::copy(bad.begin(), bad.end(), logits.begin() + kBadToken * Mixture::kExperts);
        found.run(kernels.table, 3, logits);
        for (int token = 0; token < Mixture::kTokens; ++token) {
          const std::vector<float> routes = found.row(Mixture::kRoutes, token);
          const std::vector<float> sum = found.row(Mixture::kOutput, token);
          expect_valid_experts(routes);
          if (token != kBadToken) {
            EXPECT_EQ(routes, wanted.row(Mixture::kRoutes, token));
            EXPECT_EQ(sum, wanted.row(Mixture::kOutput, token));
            continue;
          }
          for (size_t i = 1; i < routes.size(); i += 2) EXPECT_TRUE(std::isnan(routes[i]));
          for (const float value : sum) EXPECT_TRUE(std::isnan(value));
        }
        ASSERT_FALSE(HasFailure()) << implementation.name;
      }
    }
  }
}

}  // namespace
}  // namespace troika::lanes
