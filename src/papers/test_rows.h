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

struct TestRow {
  MicroRow base;
  TestKind kind = TestKind::kValue;
  std::string left_out = {};  // why it does not count (contradictions of the paper); empty: it does
  std::optional<double> highest = std::nullopt;   // where models differ: `simulated` is the lowest
  std::optional<double> measured = std::nullopt;  // on this machine

  // As that of the base; of a range of models, of the end that is farther off.
  std::optional<double> error() const;
};

// That one thing is faster than another, as published and as simulated.
struct Ordering {
  std::string text;
  bool is_kept = false;
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
  void add_ordering(const std::string& text, bool is_kept) {
    report_.orderings.push_back({text, is_kept});
  }
  // Whether a is the smaller one in both. Published figures that hardly differ stand for no order.
  void add_ordering(const std::string& text, double published_a, double published_b,
                    double simulated_a, double simulated_b);
  TestReport take() { return std::move(report_); }

 private:
  const PhoneFolder& folder_;
  TestReport report_;
};

}  // namespace troika::papers
