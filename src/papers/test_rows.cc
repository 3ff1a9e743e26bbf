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
constexpr double kClose = 2.0;
// Stands for a row's text that is no number.
const plan::PublishedValue kNoNumber;

template <typename Counts>
double median_over(const std::vector<TestRow>& rows, const Counts& counts) {
  std::vector<double> errors;
  for (const TestRow& row : rows) {
    if (row.reason.empty() && counts(row)) errors.push_back(std::abs(*row.error()));
  }
  return median(std::move(errors));
}

}  // namespace

const char* subject_name(TestSubject part) {
  switch (part) {
    case TestSubject::kPrompt:
      return "prompts";
    case TestSubject::kDecode:
      return "generation";
    case TestSubject::kRecombined:
      return "recombined ratios";
    case TestSubject::kRest:
      break;
  }
  return "rest";
}

std::optional<double> TestRow::error() const {
  if (!highest || !base.simulated) return base.error();
  // A printed single value, or a bound, is both ends.
  plan::PublishedValue first = *base.value, last = *base.value;
  if (!base.value->value && base.value->bound.empty()) {
    first.high = first.low;
    last.low = last.high;
  }
  MicroRow end = base;
  end.value = &first;
  const double low = *end.error();
  end.value = &last;
  end.simulated = highest;
  const double high = *end.error();
  return std::abs(high) > std::abs(low) ? high : low;
}

int TestReport::count(std::optional<TestKind> kind) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const TestRow& row) {
    return row.reason.empty() && (!kind || row.kind == *kind);
  }));
}

double TestReport::median_error(std::optional<TestKind> kind) const {
  return median_over(rows, [&](const TestRow& row) { return !kind || row.kind == *kind; });
}

int TestReport::count_of(TestSubject part) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const TestRow& row) {
    return row.reason.empty() && row.part == part;
  }));
}

double TestReport::median_error_of(TestSubject part) const {
  return median_over(rows, [&](const TestRow& row) { return row.part == part; });
}

OrderingCount TestReport::count_orderings(Figured figured) const {
  OrderingCount count;
  for (const Ordering& ordering : orderings) {
    if (figured != Figured::kAnyhow && figured != ordering.figured) continue;
    ++count.n;
    count.n_kept += ordering.is_kept ? 1 : 0;
  }
  return count;
}

void TestReport::widen(const TestReport& other) {
  TROIKA_ASSERT(rows.size() == other.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    TestRow& row = rows[i];
    const TestRow& tried = other.rows[i];
    TROIKA_ASSERT(row.base.value == tried.base.value);
    if (!row.base.simulated || !tried.base.simulated) continue;
    const double low = *row.base.simulated, tried_low = *tried.base.simulated;
    const std::pair<double, double> own = {low, row.highest.value_or(low)};
    std::pair<double, double> wider = row.interval.value_or(own);
    wider.first = std::min(wider.first, tried_low);
    wider.second = std::max(wider.second, tried.highest.value_or(tried_low));
    // A row that nothing has moved has no interval: it may rest on constants that were not tried.
    if (wider != own) row.interval = wider;
  }
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
    if (value.name == name || (name.empty() && row.values.size() == 1)) {
      return add(row, value, group, kind, simulated, inputs);
    }
  }
  throw Error(fmt::format("{}/published: row '{}' has no value '{}'.", folder_.path, id, name));
}

void TestRows::add_ordering(const std::string& text, double published_a, double published_b,
                            double simulated_a, double simulated_b) {
  const double apart = std::abs(std::log(published_a / published_b));
  if (apart < kTie) return;
  const bool is_kept =
      simulated_a != simulated_b && (published_a < published_b) == (simulated_a < simulated_b);
  report_.orderings.push_back(
      {text, is_kept, apart < std::log(kClose) ? Figured::kClose : Figured::kClear});
}

void TestRows::add_rising(const std::string& group) {
  const TestRow* before = nullptr;
  for (const TestRow& row : report_.rows) {
    if (row.base.group != group) continue;
    if (!row.base.value->value || !row.base.simulated) {
      throw Error(fmt::format("Row '{}' has no figure to stand in the order of the group '{}'.",
                              row.base.row->id, group));
    }
    if (before != nullptr) {
      add_ordering(fmt::format("{}: more than with the step before", row.base.inputs),
                   *before->base.value->value, *row.base.value->value, *before->base.simulated,
                   *row.base.simulated);
    }
    before = &row;
  }
  if (before == nullptr) throw Error(fmt::format("No row is in the group '{}'.", group));
}

TestReport TestRows::take(const std::string& paper) {
  size_t n_reasons = 0;
  for (const plan::PublishedRow& row : folder_.published) {
    if (row.paper != paper || row.use != "test") continue;
    std::vector<const plan::PublishedValue*> missing;
    for (const plan::PublishedValue& value : row.values) {
      const bool is_there = std::any_of(report_.rows.begin(), report_.rows.end(),
                                        [&](const TestRow& r) { return r.base.value == &value; });
      if (!is_there) missing.push_back(&value);
    }
    if (row.values.empty()) missing.push_back(&kNoNumber);
    if (missing.empty()) continue;
    const auto reason = folder_.reasons.find(row.id);
    if (reason == folder_.reasons.end()) {
      throw Error(
          fmt::format("{}/published: the row '{}' is marked test, and is neither simulated nor has "
                      "a reason in not_simulated.json.",
                      folder_.path, row.id));
    }
    ++n_reasons;
    for (const plan::PublishedValue* value : missing) {
      TestRow listed;
      listed.base = {&row, value, "not simulated"};
      listed.base.inputs = row.what;
      listed.reason = reason->second;
      report_.rows.push_back(std::move(listed));
    }
  }
  const auto n_given = static_cast<size_t>(
      std::count_if(folder_.reasons.begin(), folder_.reasons.end(), [&](const auto& reason) {
        const plan::PublishedRow* row = plan::find_row(folder_.published, reason.first);
        return row == nullptr || row->paper == paper;
      }));
  if (n_reasons != n_given) {
    throw Error(fmt::format(
        "{}/published/not_simulated.json has {} reasons for rows of {} or of nobody, of which {} "
        "are needed.",
        folder_.path, n_given, paper, n_reasons));
  }
  return std::move(report_);
}

}  // namespace troika::papers
