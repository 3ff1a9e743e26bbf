// Rows marked test beside what a virtual phone does (V3), which nothing is fitted to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "papers/micro/micro.h"

namespace troika::papers {

enum class TestKind {
  kValue,  // an absolute one: a time, a rate
  kRatio,  // of two of the phone's, or of the phone's and a published one
  kRange,  // a range or a bound over models
};

// What of a system a row tells about; medians stand apart.
enum class TestPart {
  kPrompt,      // prompts of the paper's own system
  kDecode,      // its generation
  kRecombined,  // a published figure of another engine over a simulated one
  kRest,
};
inline constexpr TestPart kTestParts[] = {TestPart::kPrompt, TestPart::kDecode,
                                          TestPart::kRecombined, TestPart::kRest};
const char* part_name(TestPart part);

struct TestRow {
  MicroRow base;
  TestKind kind = TestKind::kValue;
  // Why it does not count: the paper contradicts itself, or nothing was simulated. Empty: it
  // counts.
  std::string reason = {};
  std::optional<double> highest = std::nullopt;   // where models differ: `simulated` is the lowest
  std::optional<double> measured = std::nullopt;  // on this machine
  TestPart part = TestPart::kRest;
  std::string measured_by = {};  // the figure that would be measured here; empty: none

  // As that of the base; of a range of models, of the end that is farther off.
  std::optional<double> error() const;
};

// That one thing is faster than another, as published and as simulated.
struct Ordering {
  std::string text;
  bool is_kept = false;
  bool is_close = false;  // the published figures differ by less than twice
};

// How many orderings there are, and how many are kept.
struct OrderingCount {
  int n = 0, n_kept = 0;
};

struct TestReport {
  std::vector<TestRow> rows;
  std::vector<Ordering> orderings;
  // What the scheduler decided, in real time.
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // all together

  // Over the rows that count, of a kind or of all.
  int count(std::optional<TestKind> kind = {}) const;
  double median_error(std::optional<TestKind> kind = {}) const;
  int count_of(TestPart part) const;
  double median_error_of(TestPart part) const;
  // Counts those of close figures, those of others, or all.
  OrderingCount count_orderings(std::optional<bool> is_close = {}) const;
};

// Puts simulated figures beside the published rows that they stand for.
class TestRows {
 public:
  // The folder must outlive the report, whose rows point into it.
  explicit TestRows(const PhoneFolder& folder) : folder_(folder) {}

  const PhoneFolder& folder() const { return folder_; }
  // Throws Error where there is none.
  const plan::PublishedRow& row_of(const std::string& id) const;

  TestRow& add(const plan::PublishedRow& row, const plan::PublishedValue& value, const char* group,
               TestKind kind, double simulated, const std::string& inputs);
  // A row with one value, or the value of that name. Throws Error where there is none.
  TestRow& add(const std::string& id, const std::string& name, const char* group, TestKind kind,
               double simulated, const std::string& inputs);
  // The range that several models give.
  TestRow& add_range(const std::string& id, const std::string& name, const char* group,
                     const std::vector<double>& simulated, const std::string& inputs);
  // One that the paper states without figures.
  void add_ordering(const std::string& text, bool is_kept) {
    report_.orderings.push_back({text, is_kept});
  }
  // Whether a is the smaller one in both. Published figures that hardly differ stand for no order.
  void add_ordering(const std::string& text, double published_a, double published_b,
                    double simulated_a, double simulated_b);
  // Whether each row of a group is larger than the one before it, in both.
  void add_rising(const std::string& group);
  // Takes what was added, where it is not all of a paper.
  std::vector<TestRow> take_rows() { return std::move(report_.rows); }
  // Throws Error where a row of the paper that is marked test is neither simulated nor has a reason
  // why not.
  TestReport take(const std::string& paper);

 private:
  const PhoneFolder& folder_;
  TestReport report_;
};

}  // namespace troika::papers
