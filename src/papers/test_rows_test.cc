#include "papers/test_rows.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace troika::papers {
namespace {

plan::PublishedRow row_of(const std::string& id, std::vector<plan::PublishedValue> values) {
  plan::PublishedRow row;
  row.id = id;
  row.use = "test";
  row.paper = "a paper";
  row.values = std::move(values);
  return row;
}

// Returns a folder with three rows: one with a value of 10, one with a range of 2 to 4, and one
// with two named values.
PhoneFolder folder() {
  PhoneFolder folder;
  folder.published = {
      row_of("one", {{"", "s", 10.0, 10.0, 10.0, ""}}),
      row_of("range", {{"", "x", std::nullopt, 2.0, 4.0, ""}}),
      row_of("two", {{"latency", "s", 1.0, 1.0, 1.0, ""}, {"energy", "J", 5.0, 5.0, 5.0, ""}})};
  return folder;
}

TEST(TestRows, IntervalsHoldWhatWasTried) {
  const PhoneFolder phones = folder();
  const auto report = [&](double one, double lowest, double highest) {
    TestRows rows(phones);
    rows.add("one", "", "g", TestKind::kValue, one, "");
    rows.add("range", "", "g", TestKind::kRange, lowest, "").highest = highest;
    rows.add("two", "energy", "g", TestKind::kValue, 1.0, "").base.simulated.reset();
    TestReport taken;
    taken.rows = rows.take_rows();
    return taken;
  };
  TestReport widened = report(9.0, 2.0, 3.0);
  widened.widen(report(8.0, 2.5, 5.0));
  widened.widen(report(8.5, 1.0, 2.5));
  EXPECT_EQ(widened.rows[0].interval, std::pair(8.0, 9.0));
  EXPECT_EQ(widened.rows[1].interval, std::pair(1.0, 5.0));
  EXPECT_FALSE(widened.rows[2].interval.has_value());
}

// Both ends of a printed range were attained: models that all lie inside it miss them.
TEST(TestRows, EachEndOfARangeIsHeldToItsOwn) {
  PhoneFolder phones = folder();
  phones.published.push_back(row_of("loss", {{"", "%", std::nullopt, -4.0, -2.0, ""}}));
  phones.published.push_back(row_of("below", {{"", "%", std::nullopt, 2.0, 4.0, "most"}}));
  TestRows rows(phones);
  const auto error_of = [&](const char* id, double lowest, double highest) {
    TestRow& row = rows.add(id, "", "g", TestKind::kRange, lowest, "");
    row.highest = highest;
    return *row.error();
  };
  EXPECT_NEAR(error_of("range", 2.0, 4.0), 0.0, 1e-9);
  EXPECT_NEAR(error_of("range", 2.5, 3.5), 0.25, 1e-9);
  EXPECT_NEAR(error_of("range", 2.1, 3.0), -0.25, 1e-9);
  EXPECT_NEAR(error_of("range", 1.9, 8.0), 1.0, 1e-9);
  EXPECT_NEAR(error_of("range", 1.0, 4.1), -0.5, 1e-9);
  EXPECT_NEAR(error_of("range", 0.5, 0.6), -0.85, 1e-9);
  EXPECT_NEAR(error_of("loss", -4.0, -3.0), 0.5, 1e-9);
  EXPECT_NEAR(error_of("one", 9.0, 12.0), 0.2, 1e-9);
  EXPECT_NEAR(error_of("below", 0.5, 3.9), 0.0, 1e-9);
  // One simulated value stands for no end.
  EXPECT_NEAR(*rows.add("range", "", "g", TestKind::kRange, 3.0, "").error(), 0.0, 1e-9);
}

TEST(TestRows, RowsThatDoNotCountAreNotInTheMedian) {
  const PhoneFolder phones = folder();
  TestRows rows(phones);
  rows.add("one", "", "g", TestKind::kValue, 11.0, "");
  rows.add("two", "energy", "g", TestKind::kValue, 6.0, "");
  rows.add("two", "latency", "g", TestKind::kRatio, 2.0, "");
  rows.add("one", "", "g", TestKind::kValue, 50.0, "").reason = "a contradiction";
  const TestReport report = rows.take("no paper");
  EXPECT_EQ(report.count(), 3);
  EXPECT_EQ(report.count(TestKind::kValue), 2);
  EXPECT_NEAR(report.median_error(TestKind::kValue), 0.15, 1e-9);
  EXPECT_NEAR(report.median_error(), 0.2, 1e-9);
}

TEST(TestRows, WhatNobodyPublishedIsRefused) {
  const PhoneFolder phones = folder();
  TestRows rows(phones);
  EXPECT_THROW(rows.add("three", "", "g", TestKind::kValue, 1.0, ""), Error);
  EXPECT_THROW(rows.add("two", "memory", "g", TestKind::kValue, 1.0, ""), Error);
  EXPECT_THROW(rows.add("two", "", "g", TestKind::kValue, 1.0, ""), Error);
  EXPECT_THROW(rows.add("one", "prefil", "g", TestKind::kValue, 1.0, ""), Error);
}

TEST(TestRows, AnOrderingNeedsFiguresThatDiffer) {
  const PhoneFolder phones = folder();
  TestRows rows(phones);
  rows.add_ordering("kept", 1.0, 2.0, 10.0, 11.0);
  rows.add_ordering("not kept", 1.0, 2.0, 11.0, 10.0);
  rows.add_ordering("close", 1.0, 1.9, 10.0, 11.0);
  rows.add_ordering("a tie", 1.0, 1.04, 11.0, 10.0);
  rows.add_ordering("a sentence", true);
  const TestReport report = rows.take("no paper");
  ASSERT_EQ(report.orderings.size(), 4u);
  EXPECT_TRUE(report.orderings[0].is_kept);
  EXPECT_FALSE(report.orderings[1].is_kept);
  EXPECT_EQ(report.count_orderings().n, 4);
  EXPECT_EQ(report.count_orderings(Figured::kClose).n, 1);
  EXPECT_EQ(report.count_orderings(Figured::kClear).n, 2);
  EXPECT_EQ(report.count_orderings(Figured::kClear).n_kept, 1);
  // Nobody printed by how much a sentence without figures holds.
  EXPECT_EQ(report.count_orderings(Figured::kNoFigure).n_kept, 1);
}

TEST(TestRows, EqualFiguresKeepNoOrder) {
  const PhoneFolder phones = folder();
  TestRows rows(phones);
  rows.add_ordering("falls", 2.0, 1.0, 5.0, 5.0);
  rows.add_ordering("rises", 1.0, 2.0, 5.0, 5.0);
  EXPECT_EQ(rows.take("no paper").count_orderings().n_kept, 0);
}

TEST(TestRows, TheRowsOfAGroupRiseOrDoNot) {
  PhoneFolder phones = folder();
  phones.published.push_back(row_of("more", {{"", "s", 20.0, 20.0, 20.0, ""}}));
  TestRows rows(phones);
  rows.add("one", "", "steps", TestKind::kValue, 3.0, "the first");
  rows.add("two", "latency", "others", TestKind::kValue, 9.0, "");
  rows.add("more", "", "steps", TestKind::kValue, 2.0, "the second");
  EXPECT_THROW(rows.add_rising("no group"), Error);
  rows.add_rising("steps");
  rows.add("more", "", "steps of nobody", TestKind::kValue, 0.0, "").base.simulated.reset();
  EXPECT_THROW(rows.add_rising("steps of nobody"), Error);
  rows.add("range", "", "ranges", TestKind::kRange, 1.0, "");
  EXPECT_THROW(rows.add_rising("ranges"), Error);
  const TestReport report = rows.take("no paper");
  ASSERT_EQ(report.orderings.size(), 1u);
  EXPECT_FALSE(report.orderings[0].is_kept);
}

TEST(TestRows, EveryTestRowIsSimulatedOrHasAReason) {
  PhoneFolder phones = folder();
  phones.published.push_back(row_of("text alone", {}));
  phones.reasons = {{"range", "nobody knows"}, {"two", "no power"}, {"text alone", "no number"}};
  const auto take = [&] {
    TestRows rows(phones);
    rows.add("one", "", "g", TestKind::kValue, 11.0, "");
    rows.add("two", "latency", "g", TestKind::kValue, 2.0, "").part = TestSubject::kDecode;
    return rows.take("a paper");
  };
  const TestReport report = take();
  ASSERT_EQ(report.rows.size(), 5u);
  EXPECT_EQ(report.count(), 2);
  EXPECT_EQ(report.count_of(TestSubject::kDecode), 1);
  EXPECT_NEAR(report.median_error_of(TestSubject::kDecode), 1.0, 1e-9);
  for (size_t i = 2; i < 5; ++i) {
    EXPECT_FALSE(report.rows[i].base.simulated.has_value());
    EXPECT_EQ(report.rows[i].reason, phones.reasons.at(report.rows[i].base.row->id));
  }
  phones.reasons.erase("two");
  EXPECT_THROW(take(), Error);
}

}  // namespace
}  // namespace troika::papers
