#include "solve/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace troika::solve {
namespace {

constexpr int kMostSteps = 300;
constexpr double kDifference = 1e-5;  // a difference of logarithms
constexpr double kMostStep = 1.0;     // limits a step of a logarithm
constexpr double kMostDamping = 1e10;

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double sum_of_squares(const Vector& v) {
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return sum;
}

Vector exponentials(const Vector& logs) {
  Vector v;
  for (const double x : logs) v.push_back(std::exp(x));
  return v;
}

// Solves by Gaussian elimination with pivots. REQUIRES: the matrix is not singular.
Vector solve_linear(Matrix a, Vector b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i + 1; r < n; ++r) {
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) b[i] -= a[i][c] * b[c];
    b[i] /= a[i][i];
  }
  return b;
}

// Returns the step that makes the sum of squares least, held back by `damping`.
Vector damped_step(const Matrix& slopes, const Vector& now, double damping) {
  constexpr double kNeverSingular = 1e-12;
  const size_t n = slopes.size();
  Matrix normal(n, Vector(n, 0.0));
  Vector right(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t r = 0; r < now.size(); ++r) {
      right[i] -= slopes[i][r] * now[r];
      for (size_t j = 0; j < n; ++j) normal[i][j] += slopes[i][r] * slopes[j][r];
    }
  }
  for (size_t i = 0; i < n; ++i) normal[i][i] += damping * (normal[i][i] + 1e-6) + kNeverSingular;
  return solve_linear(normal, right);
}

}  // namespace

void fit(std::vector<double>& constants,
         const std::function<std::vector<double>(const std::vector<double>&)>& residuals) {
  Vector logs;
  for (const double c : constants) {
    TROIKA_ASSERT(c > 0.0);
    logs.push_back(std::log(c));
  }
  Vector now = residuals(constants);
  double damping = 1e-3;
  for (int step = 0; step < kMostSteps && damping < kMostDamping; ++step) {
    Matrix slopes;  // (constants, rows)
    for (size_t i = 0; i < logs.size(); ++i) {
      Vector moved = logs;
      moved[i] += kDifference;
      Vector slope = residuals(exponentials(moved));
      for (size_t r = 0; r < slope.size(); ++r) slope[r] = (slope[r] - now[r]) / kDifference;
      slopes.push_back(std::move(slope));
    }
    const Vector change = damped_step(slopes, now, damping);
    Vector next = logs;
    for (size_t i = 0; i < next.size(); ++i) {
      next[i] += std::clamp(change[i], -kMostStep, kMostStep);
    }
    Vector tried = residuals(exponentials(next));
    if (sum_of_squares(tried) < sum_of_squares(now)) {
      logs = std::move(next);
      now = std::move(tried);
      damping = std::max(1e-9, damping * 0.3);
    } else {
      damping *= 4.0;
    }
  }
  constants = exponentials(logs);
}

}  // namespace troika::solve
