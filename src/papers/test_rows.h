// Compares published rows marked test with what a virtual phone does (V3). Nothing is fitted to
// these rows.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "papers/micro/micro.h"

namespace troika::papers {

enum class TestKind {
  kValue,  // an absolute value: a time, a rate
  kRatio,  // a ratio of two figures of the phone, or of the phone's and a published one
  kRange,  // a range or a bound over models
};

// Says what part of a system a row tells about. Medians are taken for each part.
enum class TestSubject {
  kPrompt,      // rows about prompts of the paper's own system
  kDecode,      // rows about generation of the paper's own system
  kRecombined,  // quotients of another engine's published figure and a simulated one
  kRest,
};
inline constexpr TestSubject kTestSubjects[] = {TestSubject::kPrompt, TestSubject::kDecode,
                                                TestSubject::kRecombined, TestSubject::kRest};
const char* subject_name(TestSubject part);

struct TestRow {
  MicroRow base;
  TestKind kind = TestKind::kValue;
  // Says why the row does not count: the paper contradicts itself, or nothing was simulated. Empty:
  // it counts.
  std::string reason = {};
  // The highest value where models differ; `simulated` is then the lowest.
  std::optional<double> highest = std::nullopt;
  std::optional<double> measured = std::nullopt;  // the figure that was measured on this machine
  // The least and the most that was simulated with constants at the ends of their ranges, each by
  // itself; none: nobody tried.
  std::optional<std::pair<double, double>> interval = std::nullopt;
  TestSubject part = TestSubject::kRest;
  std::string measured_by = {};  // names the figure that would be measured here; empty: none

  // Returns the base's error. For a range of models beside a printed range the lowest is held to
  // the lowest and the highest to the highest, because both were attained; beside anything else
  // both are held to what is printed. The one that is farther off counts.
  std::optional<double> error() const;
};

// Says which orderings are meant, by the published figures.
enum class Figured {
  kAnyhow,
  kClose,    // the figures differ by less than twice
  kClear,    // the figures differ by twice or more
  kNoFigure  // no figures stand behind it, so that nobody knows how clear it is
};

// Says that one thing is faster than another, as published and as simulated.
struct Ordering {
  std::string text;
  bool is_kept = false;
  Figured figured = Figured::kNoFigure;  // never kAnyhow
};

// Counts orderings, and those that are kept.
struct OrderingCount {
  int n = 0, n_kept = 0;
};

struct TestReport {
  std::vector<TestRow> rows;
  std::vector<Ordering> orderings;
  uint64_t n_decisions = 0;  // counts decisions of the scheduler
  double decision_us = 0.0;  // sums up what they took on this machine, in real time

  // These go over the rows that count, of a kind or of all.
  int count(std::optional<TestKind> kind = {}) const;
  double median_error(std::optional<TestKind> kind = {}) const;
  int count_of(TestSubject part) const;
  double median_error_of(TestSubject part) const;
  OrderingCount count_orderings(Figured figured = Figured::kAnyhow) const;
  // Widens the intervals of the rows to what another run of the same report simulated.
  void widen(const TestReport& other);
};

// Puts simulated figures beside the published rows that they stand for.
class TestRows {
 public:
  // The folder must outlive the report, whose rows point into it.
  explicit TestRows(const PhoneFolder& folder) : folder_(folder) {}

  const PhoneFolder& folder() const { return folder_; }
  // Throws Error where there is no such row.
  const plan::PublishedRow& row_of(const std::string& id) const;

  TestRow& add(const plan::PublishedRow& row, const plan::PublishedValue& value, const char* group,
               TestKind kind, double simulated, const std::string& inputs);
  // Adds the row's value of that name. No name stands for the value of a row that has one. Throws
  // Error where there is none.
  TestRow& add(const std::string& id, const std::string& name, const char* group, TestKind kind,
               double simulated, const std::string& inputs);
  // Adds an ordering that is held as a sentence, without figures.
  void add_ordering(const std::string& text, bool is_kept) {
    report_.orderings.push_back({text, is_kept});
  }
  // Adds the ordering that says which of a and b is smaller, published and simulated. Published
  // figures that hardly differ stand for no order; simulated ones that are equal keep none.
  void add_ordering(const std::string& text, double published_a, double published_b,
                    double simulated_a, double simulated_b);
  // Adds orderings which say that each row of a group is larger than the one before it.
  void add_rising(const std::string& group);
  // Takes the rows that were added, where they are not all of a paper.
  std::vector<TestRow> take_rows() { return std::move(report_.rows); }
  // Takes the report. Throws Error where a row of the paper that is marked test is neither
  // simulated nor has a reason why not.
  TestReport take(const std::string& paper);

 private:
  const PhoneFolder& folder_;
  TestReport report_;
};

}  // namespace troika::papers
