#include "solve/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace troika::solve {
namespace {

std::vector<double> line_residuals(const std::vector<double>& c) {
  std::vector<double> residuals;
  for (const double x : {1.0, 10.0, 200.0}) {
    residuals.push_back(std::log((c[0] + c[1] * x) / (3.0 + 0.5 * x)));
  }
  return residuals;
}

TEST(Fit, FindsTheLineBehindItsPoints) {
  std::vector<double> constants = {100.0, 0.001};
  fit(constants, line_residuals);
  EXPECT_NEAR(constants[0], 3.0, 1e-4);
  EXPECT_NEAR(constants[1], 0.5, 1e-4);
}

TEST(Fit, TakesTheGeometricMeanOfOneConstant) {
  std::vector<double> constants = {1.0};
  fit(constants, [](const std::vector<double>& c) {
    return std::vector<double>{std::log(c[0] / 4.0), std::log(c[0] / 9.0)};
  });
  EXPECT_NEAR(constants[0], 6.0, 1e-4);
}

TEST(Fit, LeavesAConstantThatNothingTells) {
  std::vector<double> constants = {2.0, 7.0};
  fit(constants,
      [](const std::vector<double>& c) { return std::vector<double>{std::log(c[0] / 4.0)}; });
  EXPECT_NEAR(constants[0], 4.0, 1e-4);
  EXPECT_NEAR(constants[1], 7.0, 1e-4);
}

}  // namespace
}  // namespace troika::solve
