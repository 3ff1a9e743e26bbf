#include "papers/test_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/median.h"

namespace troika::papers {
namespace {

// Published figures whose logarithms differ by less stand for no order.
constexpr double kTie = 0.05;

}  // namespace

std::optional<double> TestRow::error() const {
  const std::optional<double> low = base.error();
  if (!highest || !low) return low;
  MicroRow other = base;
  other.simulated = highest;
  const double high = *other.error();
  return std::abs(high) > std::abs(*low) ? high : *low;
}

int TestReport::count(std::optional<TestKind> kind) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const TestRow& row) {
    return row.left_out.empty() && (!kind || row.kind == *kind);
  }));
}

double TestReport::median_error(std::optional<TestKind> kind) const {
  std::vector<double> errors;
  for (const TestRow& row : rows) {
    if (!row.left_out.empty() || (kind && row.kind != *kind)) continue;
    errors.push_back(std::abs(*row.error()));
  }
  return median(std::move(errors));
}

const plan::PublishedRow& TestRows::row_of(const std::string& id) const {
  const plan::PublishedRow* row = plan::find_row(folder_.published, id);
  if (row == nullptr) throw Error(fmt::format("{}/published has no row '{}'.", folder_.path, id));
  return *row;
}

TestRow& TestRows::add(const plan::PublishedRow& row, const plan::PublishedValue& value,
                       const char* group, TestKind kind, double simulated,
                       const std::string& inputs) {
  report_.rows.push_back({{&row, &value, group, Split::kNone, simulated, inputs}, kind});
  return report_.rows.back();
}

TestRow& TestRows::add(const std::string& id, const std::string& name, const char* group,
                       TestKind kind, double simulated, const std::string& inputs) {
  const plan::PublishedRow& row = row_of(id);
  for (const plan::PublishedValue& value : row.values) {
    if (value.name == name || row.values.size() == 1) {
      return add(row, value, group, kind, simulated, inputs);
    }
  }
  throw Error(fmt::format("{}/published: row '{}' has no value '{}'.", folder_.path, id, name));
}

TestRow& TestRows::add_range(const std::string& id, const std::string& name, const char* group,
                             const std::vector<double>& simulated, const std::string& inputs) {
  const auto [low, high] = std::minmax_element(simulated.begin(), simulated.end());
  TestRow& row = add(id, name, group, TestKind::kRange, *low, inputs);
  row.highest = *high;
  return row;
}

void TestRows::add_ordering(const std::string& text, double published_a, double published_b,
                            double simulated_a, double simulated_b) {
  if (std::abs(std::log(published_a / published_b)) < kTie) return;
  add_ordering(text, (published_a < published_b) == (simulated_a < simulated_b));
}

}  // namespace troika::papers
