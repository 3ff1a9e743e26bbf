#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace troika::model {
namespace {

constexpr double kPi = 3.14159265358979323846;

Rope plain() {
  Rope rope;
  rope.n_dims = 64;
  rope.base = 10000.0;
  return rope;
}

// Expects magnitude * (cos, sin)(position * frequency(pair)).
template <typename Frequency>
void expect_angles(const Rope& rope, double magnitude, const Frequency& frequency) {
  const RopeAngles angles({&rope, 1}, 1);
  ASSERT_EQ(angles.n_pairs(), rope.n_dims / 2);
  std::vector<float> cos(static_cast<size_t>(rope.n_dims / 2)), sin(cos.size());
  for (const int position : {0, 1, 7, 500, 4000, 131071}) {
    angles.fill(position, cos.data(), sin.data());
    for (size_t pair = 0; pair < cos.size(); ++pair) {
      const double angle = position * frequency(static_cast<int>(pair));
      EXPECT_NEAR(cos[pair], magnitude * std::cos(angle), 1e-6) << position << ", pair " << pair;
      EXPECT_NEAR(sin[pair], magnitude * std::sin(angle), 1e-6) << position << ", pair " << pair;
    }
  }
}

double plain_frequency(const Rope& rope, int pair) {
  return 1.0 / std::pow(rope.base, static_cast<double>(2 * pair) / rope.n_dims);
}

TEST(RopeAngles, Plain) {
  for (const int n_dims : {2, 24, 64, 256}) {
    Rope rope = plain();
    rope.n_dims = n_dims;
    expect_angles(rope, 1.0, [&](int pair) { return plain_frequency(rope, pair); });
  }
  Rope rope = plain();
  rope.base = 5e5;
  expect_angles(rope, 1.0, [&](int pair) { return plain_frequency(rope, pair); });
}

TEST(RopeAngles, NoRotationAtAll) {
  Rope rope = plain();
  rope.n_dims = 0;
  EXPECT_EQ(RopeAngles({&rope, 1}, 1).n_pairs(), 0);
}

TEST(RopeAngles, Linear) {
  Rope rope = plain();
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 4.0;
  expect_angles(rope, 1.0, [&](int pair) { return plain_frequency(rope, pair) / 4; });
}

TEST(RopeAngles, DivisorsOfLlama3) {
  Rope rope = plain();
  for (int pair = 0; pair < 32; ++pair) {
    rope.frequency_divisors.push_back(1.0f + static_cast<float>(pair));
  }
  expect_angles(rope, 1.0, [&](int pair) { return plain_frequency(rope, pair) / (1.0 + pair); });
}

// In YaRN, pairs that turn more than beta_fast times within the original context keep their
// frequency, and pairs that turn less than beta_slow times are slowed by the factor. Between them
// lies a ramp over the index of the pair. All values grow by 1 + 0.1 ln(factor).
TEST(RopeAngles, Yarn) {
  for (const double factor : {2.0, 4.0, 32.0}) {
    Rope rope = plain();
    rope.scaling = RopeScaling::kYarn;
    rope.factor = factor;
    rope.original_context = 2048;
    // Returns the pair that turns t times within the context: L / (2 pi t) = base^(2 i / n).
    const auto pair_of = [&](double turns) {
      return 64 * std::log(2048 / (2 * kPi * turns)) / (2 * std::log(10000.0));
    };
    const double low = std::floor(pair_of(32)), high = std::ceil(pair_of(1));
    ASSERT_GT(low, 0);
    ASSERT_LT(high, 32);
    const auto frequency = [&](int pair) {
      const double whole = plain_frequency(rope, pair);
      if (pair <= low) return whole;
      if (pair >= high) return whole / factor;
      const double ramp = (pair - low) / (high - low);
      return whole / factor * ramp + whole * (1 - ramp);
    };
    expect_angles(rope, 1 + 0.1 * std::log(factor), frequency);
    rope.attention_factor = 0.5;
    expect_angles(rope, 0.5 * (1 + 0.1 * std::log(factor)), frequency);
    rope.attention_factor = 1.0;
    rope.yarn_ext_factor = 0.0;  // makes the scaling linear, and magnitudes stay
    expect_angles(rope, 1.0, [&](int pair) { return plain_frequency(rope, pair) / factor; });
  }
}

}  // namespace
}  // namespace troika::model
