#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "kernels/test_support.h"

namespace troika::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLengths[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 64, 100, 257};

class Pointwise : public EveryImplementation {
 protected:
  static const Table& reference_table() { return reference::kTable; }

  static void expect_close(const std::vector<float>& mine, const std::vector<float>& theirs,
                           double relative, double absolute, const char* what) {
    ASSERT_EQ(mine.size(), theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      if (std::isinf(theirs[i])) {
        EXPECT_EQ(mine[i], theirs[i]) << what << " " << i;
      } else {
        EXPECT_NEAR(mine[i], theirs[i], relative * std::fabs(theirs[i]) + absolute)
            << what << " " << i << " of " << mine.size();
      }
    }
  }

  using Unary = void (*)(const float*, float*, size_t);
  using Binary = void (*)(const float*, const float*, float*, size_t);

  // Returns values from ordinary to extreme ones. Tests read them from the second on, at an address
  // that is no multiple of a vector.
  static std::vector<float> values(size_t n, uint32_t seed) {
    std::vector<float> x = random_floats(n, seed, 3.0f);
    const float special[] = {0, -0.0f, 1e-30f, -20, 20, 88, -88, 100, -100, 1e4f, -1e4f};
    for (size_t i = 0; i < n; i += 3) x[i] = special[i / 3 % std::size(special)];
    return x;
  }

  static void compare(Unary mine, Unary theirs, double relative, double absolute,
                      const char* what) {
    for (size_t n : kLengths) {
      std::vector<float> x = values(n + 1, static_cast<uint32_t>(n));
      std::vector<float> a(n), b(n);
      mine(x.data() + 1, a.data(), n);
      theirs(x.data() + 1, b.data(), n);
      expect_close(a, b, relative, absolute, what);
      mine(x.data() + 1, x.data() + 1, n);  // works in place
      EXPECT_EQ(std::vector<float>(x.begin() + 1, x.end()), a) << what;
    }
  }

  static void compare(Binary mine, Binary theirs, double relative, double absolute,
                      const char* what) {
    for (size_t n : kLengths) {
      const std::vector<float> x = values(n + 1, static_cast<uint32_t>(n));
      std::vector<float> y = values(n, static_cast<uint32_t>(n) + 1000), a(n), b(n);
      mine(x.data() + 1, y.data(), a.data(), n);
      theirs(x.data() + 1, y.data(), b.data(), n);
      expect_close(a, b, relative, absolute, what);
      mine(x.data() + 1, y.data(), y.data(), n);
      EXPECT_EQ(y, a) << what;
    }
  }
};

TEST_P(Pointwise, ActivationsAgreeWithTheReference) {
  const Table& mine = table();
  const Table& theirs = reference_table();
  compare(mine.silu, theirs.silu, 5e-7, 1e-35, "silu");
  // Where e^-x overflows, the form with tanh gives a tiny number or 0.
  compare(mine.gelu, theirs.gelu, 2e-6, 1e-6, "gelu");
  compare(mine.relu, theirs.relu, 0, 0, "relu");
  compare(mine.silu_mul, theirs.silu_mul, 1e-6, 1e-30, "silu_mul");
  compare(mine.gelu_mul, theirs.gelu_mul, 2e-6, 2e-2, "gelu_mul");
  compare(mine.relu_mul, theirs.relu_mul, 0, 0, "relu_mul");
  compare(mine.add, theirs.add, 0, 0, "add");
}

TEST_P(Pointwise, NoActivationHidesWhatIsNoNumber) {
  const Table& mine = table();
  const std::vector<float> x(19, std::nanf("")), ones(19, 1.0f);
  for (const auto activate : {mine.silu, mine.gelu, mine.relu}) {
    std::vector<float> y(x.size());
    activate(x.data(), y.data(), x.size());
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
  }
  for (const auto gate : {mine.silu_mul, mine.gelu_mul, mine.relu_mul}) {
    std::vector<float> y(x.size());
    gate(x.data(), ones.data(), y.data(), x.size());
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(Pointwise, ScaleAgreesWithTheReference) {
  for (size_t n : kLengths) {
    const std::vector<float> x = values(n, 1);
    std::vector<float> a(n), b(n);
    table().scale(x.data(), 0.37f, a.data(), n);
    reference_table().scale(x.data(), 0.37f, b.data(), n);
    EXPECT_EQ(a, b);
  }
}

// The bound 2e-7 is two units in the last place of numbers just above a power of two.
TEST_P(Pointwise, ExpIsWithinItsBound) {
  std::vector<float> x;
  for (float v = -87.3f; v < 88.7f; v += 0.00137f) x.push_back(v);
  std::vector<float> y(x.size());
  table().exp(x.data(), y.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i] / exact, 1.0, 2e-7) << x[i];
  }
}

TEST_P(Pointwise, ExpOfExtremes) {
  const float x[] = {0, 89, 1000, kInfinity, -kInfinity, -200, std::nanf(""), -90};
  float y[8];
  table().exp(x, y, 8);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], kInfinity);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_TRUE(std::isnan(y[6]));
  EXPECT_NEAR(y[7], 8.19401e-40f, 1e-42f);
}

TEST_P(Pointwise, NormsAgreeWithTheReference) {
  for (size_t n : kLengths) {
    if (n == 0) continue;
    const std::vector<float> x = random_floats(n, 1, 2.0f);
    const std::vector<float> weight = random_floats(n, 2), bias = random_floats(n, 3);
    std::vector<float> a(n), b(n);
    for (const float* w : {weight.data(), static_cast<const float*>(nullptr)}) {
      table().rms_norm(x.data(), w, 1e-5f, a.data(), n);
      reference_table().rms_norm(x.data(), w, 1e-5f, b.data(), n);
      expect_close(a, b, 1e-6, 1e-30, "rms_norm");
      for (const float* s : {bias.data(), static_cast<const float*>(nullptr)}) {
        table().layer_norm(x.data(), w, s, 1e-5f, a.data(), n);
        reference_table().layer_norm(x.data(), w, s, 1e-5f, b.data(), n);
        expect_close(a, b, 1e-5, 3e-6, "layer_norm");
      }
    }
    std::vector<float> same = x;
    table().rms_norm(same.data(), weight.data(), 1e-5f, same.data(), n);
    table().rms_norm(x.data(), weight.data(), 1e-5f, a.data(), n);
    EXPECT_EQ(same, a);
  }
}

TEST_P(Pointwise, RotationsAgreeWithTheReference) {
  constexpr size_t kHeads = 3, kStride = 70;
  for (size_t n_rot : {0, 2, 6, 16, 34, 64, 70}) {
    std::vector<float> cos, sin;
    for (size_t i = 0; i < n_rot / 2; ++i) {
      cos.push_back(std::cos(0.3f * static_cast<float>(i)));
      sin.push_back(std::sin(0.3f * static_cast<float>(i)));
    }
    for (auto function : {&Table::rope_normal, &Table::rope_neox}) {
      std::vector<float> a = random_floats(kHeads * kStride, 4), b = a;
      (table().*function)(a.data(), kHeads, kStride, n_rot, cos.data(), sin.data());
      (reference_table().*function)(b.data(), kHeads, kStride, n_rot, cos.data(), sin.data());
      expect_close(a, b, 1e-6, 1e-6, "rope");
      for (size_t i = n_rot; i < kStride; ++i) EXPECT_EQ(a[i], b[i]);
    }
  }
}

TEST(Rope, TheTwoPairingsTurnTheirOwnPairs) {
  const float cos[] = {0, 1}, sin[] = {1, 0};  // turn the first pair by a quarter
  float normal[] = {1, 2, 3, 4}, neox[] = {1, 2, 3, 4};
  reference::kTable.rope_normal(normal, 1, 4, 4, cos, sin);
  reference::kTable.rope_neox(neox, 1, 4, 4, cos, sin);
  EXPECT_EQ(std::vector<float>(normal, normal + 4), (std::vector<float>{-2, 1, 3, 4}));
  EXPECT_EQ(std::vector<float>(neox, neox + 4), (std::vector<float>{-3, 2, 1, 4}));
}

TEST_P(Pointwise, SoftCapAgreesWithTheReferenceAndStaysBelowTheCap) {
  for (size_t n : kLengths) {
    for (float cap : {0.5f, 30.0f}) {
      const std::vector<float> x = random_floats(n, 8, 100.0f);
      std::vector<float> a(n), b(n);
      table().soft_cap(x.data(), cap, a.data(), n);
      reference_table().soft_cap(x.data(), cap, b.data(), n);
      expect_close(a, b, 1e-6, 4e-7 * cap, "soft_cap");
      for (const float y : a) EXPECT_LE(std::fabs(y), cap);
    }
  }
}

TEST_P(Pointwise, SoftmaxAgreesWithTheReference) {
  for (size_t n : kLengths) {
    for (float scale : {1.0f, 50.0f}) {
      const std::vector<float> x = random_floats(n, 5, scale);
      std::vector<float> a(n), b(n);
      table().softmax(x.data(), a.data(), n);
      reference_table().softmax(x.data(), b.data(), n);
      // The difference of two logits 100 apart has an error of 4e-6, which exp turns into a
      // relative error.
      expect_close(a, b, 1e-5, 1e-35, "softmax");
    }
    std::vector<float> x(n, -kInfinity), y(n);  // masks all but one
    if (n == 0) continue;
    x[n / 2] = 3;
    table().softmax(x.data(), y.data(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], i == n / 2 ? 1.0f : 0.0f);
  }
}

// If the other shares were numbers, they would hide the one that is not.
TEST_P(Pointwise, SoftmaxHasNoNumbersWhereALogitIsNone) {
  for (size_t n : kLengths) {
    std::vector<float> y(n);
    const auto expect_no_numbers = [&](const std::vector<float>& x) {
      table().softmax(x.data(), y.data(), n);
      for (const float share : y) ASSERT_TRUE(std::isnan(share)) << n;
    };
    for (size_t at = 0; at < n; ++at) {
      for (const float bad : {std::nanf(""), kInfinity}) {
        std::vector<float> x = random_floats(n, 5, 50.0f);
        x[at] = bad;
        expect_no_numbers(x);
      }
    }
    expect_no_numbers(std::vector<float>(n, -kInfinity));
  }
}

TEST_P(Pointwise, ArgmaxIsTheFirstOfTheLargest) {
  for (size_t n : kLengths) {
    if (n == 0) continue;
    std::vector<float> x = random_floats(n, 6);
    EXPECT_EQ(table().argmax(x.data(), n), reference_table().argmax(x.data(), n));
    x.assign(n, -kInfinity);
    EXPECT_EQ(table().argmax(x.data(), n), 0u);
    x.assign(n, std::nanf(""));
    EXPECT_EQ(table().argmax(x.data(), n), 0u);
    for (size_t at : {size_t{0}, n / 2, n - 1}) {
      x.assign(n, std::nanf(""));
      x[at] = -5;
      EXPECT_EQ(table().argmax(x.data(), n), at) << n;
      x.assign(n, 1);
      x[at] = 2;
      x[n - 1] = 2;
      EXPECT_EQ(table().argmax(x.data(), n), at) << n;
    }
  }
}

// The largest value stands so far behind what is no number that a vector's element has seen both,
// or before it, or in another element.
TEST_P(Pointwise, ArgmaxPassesOverWhatIsNoNumber) {
  for (size_t n : kLengths) {
    for (size_t bad : {size_t{0}, size_t{3}, n / 2, n - 1}) {
      for (size_t ahead : {size_t{1}, size_t{4}, size_t{8}, size_t{16}, n - 1}) {
        if (n < 2 || bad >= n) continue;
        std::vector<float> x(n, -2);
        const size_t at = (bad + ahead) % n;
        if (at == bad) continue;
        x[at] = -1;
        x[bad] = std::nanf("");
        EXPECT_EQ(table().argmax(x.data(), n), at) << n << " " << bad;
        EXPECT_EQ(reference_table().argmax(x.data(), n), at) << n << " " << bad;
      }
    }
  }
}

// Every vector of the longer lists has values above the limit, below it and equal to it, and some
// that are no number.
TEST_P(Pointwise, WhatStandsAboveALimitIsFound) {
  for (const size_t n : kLengths) {
    std::vector<float> x = random_floats(n, 7);
    for (size_t i = 0; i < n; i += 3) x[i] = 0.25f;
    for (size_t i = 2; i < n; i += 7) x[i] = i % 2 == 0 ? std::nanf("") : -kInfinity;
    for (const float limit : {-kInfinity, -0.5f, 0.25f, 10.0f, kInfinity}) {
      std::vector<uint32_t> expected(n), found(n);
      expected.resize(reference_table().find_above(x.data(), n, limit, expected.data()));
      found.resize(table().find_above(x.data(), n, limit, found.data()));
      EXPECT_EQ(found, expected) << n << ", " << limit;
      EXPECT_EQ(table().count_above(x.data(), n, limit), expected.size()) << n << ", " << limit;
    }
  }
}

// Nothing is written behind the room for n, even where all are found.
TEST_P(Pointwise, WhatIsFoundStaysInItsRoom) {
  for (const size_t n : kLengths) {
    const std::vector<float> x(n, 1.0f);
    std::vector<uint32_t> found(n + 16, 77);
    EXPECT_EQ(table().find_above(x.data(), n, 0.0f, found.data()), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(found[i], i);
    for (size_t i = n; i < found.size(); ++i) EXPECT_EQ(found[i], 77u) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Pointwise, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
