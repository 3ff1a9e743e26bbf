#include "engine/batching/part_costs.h"

#include <algorithm>

namespace troika::engine {
namespace {

// Only parts behind at least this many tokens tell what a deep text adds to the time of a part.
constexpr int kDeep = 512;
// Is the weight of a new measurement in what is expected.
constexpr double kShare = 0.3;
// A measurement changes what is expected by this factor at most, because the part may have been
// interrupted.
constexpr double kMostChange = 1.5;
// Rows take at least this share of what a part took.
constexpr double kLeastOfRows = 0.1;

// Learns what was seen. What is expected is 0 until something was seen.
void update(double seen, double* expected) {
  const double most = *expected > 0.0 ? kMostChange * *expected : seen;
  *expected += (*expected > 0.0 ? kShare : 1.0) * (std::min(seen, most) - *expected);
}

}  // namespace

void PartCosts::learn(int n_rows, int n_before, double ms) {
  PassRows rows;
  rows.add(n_rows, n_before);
  learn(rows, ms);
}

void PartCosts::learn(const PassRows& rows, double ms) {
  const double pairs = rows.thousands_of_pairs();
  if (pairs >= 1e-3 * kDeep * rows.n() && widest_ > 0) {
    update(std::max(0.0, ms - row_ms_ * rows.n()) / pairs, &thousand_ms_);
  }
  const double of_rows_ms = std::max(kLeastOfRows * ms, ms - thousand_ms_ * pairs);
  update(of_rows_ms / rows.n(), &row_ms_);
  widest_ = std::max(widest_, rows.n());
}

double PartCosts::ms(int n_rows, int n_before) const {
  return row_ms_ * n_rows + thousand_ms_ * 1e-3 * n_rows * n_before;
}

int PartCosts::rows_within(double most_ms, int n_before, int smallest, int most) const {
  const int widest = std::min(2 * widest_, most);
  int rows = smallest;
  while (rows + smallest <= widest && ms(rows + smallest, n_before) <= most_ms) rows += smallest;
  return rows;
}

}  // namespace troika::engine
