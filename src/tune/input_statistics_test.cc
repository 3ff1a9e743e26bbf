#include "tune/input_statistics.h"

#include <gtest/gtest.h>

namespace troika::tune {
namespace {

// Returns a blueprint of one product with 4 channels.
model::Blueprint blueprint() {
  model::Blueprint b;
  b.values = {{"x", 4, false}, {"y", 2, false}};
  b.weights.push_back({"w.weight", 0, 2, 4, 2, 0});
  model::Op op{model::OpKind::kLinear};
  op.inputs[0] = 0, op.output = 1, op.weight = 0;
  b.ops.push_back(op);
  return b;
}

// Returns activations whose channel 2 is mostly large and channel 3 seldom; the others are at most
// 1.
std::vector<float> activations(int n_rows) {
  std::vector<float> x;
  for (int row = 0; row < n_rows; ++row) {
    x.push_back(static_cast<float>(row % 10) / 9.0f);
    x.push_back(row % 2 == 0 ? -0.5f : 0.25f);
    x.push_back(row % 4 != 0 ? -50.0f : 0.5f);
    x.push_back(row % 100 == 0 ? 20.0f : 0.0f);
  }
  return x;
}

TEST(InputStatistics, N3QuantilesAndTheBestClamp) {
  const model::Blueprint b = blueprint();
  InputStatistics statistics(b);
  const std::vector<float> x = activations(1000);
  statistics.observe(b.ops[0], x.data(), 400, 4);
  statistics.observe(b.ops[0], x.data() + 1600, 600, 4);
  EXPECT_EQ(statistics.largest(0), 50.0f);
  EXPECT_EQ(statistics.channel_largest(0), (std::vector<float>{1.0f, 0.5f, 50.0f, 20.0f}));
  // The 4000 values have 750 that are 50, and 10 that are 20.
  EXPECT_EQ(statistics.quantile(0, 1.0), 50.0f);
  EXPECT_NEAR(statistics.quantile(0, 0.8124), 20.0f, 0.7f);
  EXPECT_NEAR(statistics.quantile(0, 0.805), 1.0f, 0.04f);
  EXPECT_EQ(statistics.quantile(0, 0.01), 0.0f);
  // To clamp so many large values would cost more than it gains.
  EXPECT_NEAR(statistics.best_clamp(0), 50.0f, 1.0f);
}

TEST(InputStatistics, N5HotChannelsHaveMostOutliers) {
  const model::Blueprint b = blueprint();
  InputStatistics statistics(b);
  const std::vector<float> x = activations(1000);
  statistics.observe(b.ops[0], x.data(), 1000, 4);
  EXPECT_EQ(statistics.outliers_per_token(0), 0.0);
  statistics.count_outliers({2.0f});
  statistics.observe(b.ops[0], x.data(), 1000, 4);
  EXPECT_DOUBLE_EQ(statistics.outliers_per_token(0), 0.76);
  EXPECT_EQ(statistics.n_outlier_channels(0), 2);
  EXPECT_EQ(statistics.hot_channels(0, 0.8), (std::vector<int>{2}));
  EXPECT_EQ(statistics.hot_channels(0, 1.0), (std::vector<int>{2, 3}));
}

TEST(InputStatistics, AnInputThatIsAlwaysZeroHasNoMagnitude) {
  const model::Blueprint b = blueprint();
  InputStatistics statistics(b);
  const std::vector<float> zeros(40);
  statistics.observe(b.ops[0], zeros.data(), 10, 4);
  EXPECT_EQ(statistics.largest(0), 0.0f);
  EXPECT_EQ(statistics.quantile(0, 0.999), 0.0f);
  EXPECT_EQ(statistics.best_clamp(0), 0.0f);
  EXPECT_TRUE(statistics.hot_channels(0, 0.8).empty());
}

}  // namespace
}  // namespace troika::tune
