#include "papers/figures.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace troika::papers {
namespace {

Figures some_figures() {
  Figures figures;
  figures.add("number", {"is"}, [](const plan::FigureCall& call) { return call.number("is"); });
  return figures;
}

plan::FigureCall number(const char* is) { return {"number", {{"is", is}}}; }

TEST(Figures, V3_TermsAreComparedAsTheRowSays) {
  const Figures figures = some_figures();
  const plan::FigureTerm two = {number("6"), number("4")};
  EXPECT_EQ(figures.value(two, ""), 1.5);
  EXPECT_EQ(figures.value(two, "times"), 1.5);
  EXPECT_EQ(figures.value(two, "percent"), 150.0);
  EXPECT_EQ(figures.value(two, "percent more"), 50.0);
  EXPECT_EQ(figures.value(two, "percent less"), -50.0);
  EXPECT_EQ(figures.value(two, "difference"), 2.0);
  EXPECT_THROW(figures.value(two, "furlongs"), Error);
  EXPECT_EQ(figures.value({number("6")}, ""), 6.0);
  EXPECT_THROW(figures.value({number("6")}, "percent"), Error);
}

TEST(Figures, V3_SeveralTermsAreAMeanOrARange) {
  const Figures figures = some_figures();
  plan::SimulatedRow row{"x001"};
  row.terms = {{number("8")}, {number("2")}, {number("4")}};
  EXPECT_THROW(figures.values(row), Error);
  row.together = "range";
  EXPECT_EQ(figures.values(row), (std::vector<double>{2.0, 8.0}));
  row.together = "highest";
  EXPECT_EQ(figures.values(row), std::vector<double>{8.0});
  row.together = "geometric mean";
  EXPECT_NEAR(figures.values(row).at(0), 4.0, 1e-12);
  row.together = "mean";
  EXPECT_NEAR(figures.values(row).at(0), 14.0 / 3, 1e-12);
}

TEST(Figures, V3_ARowWithoutFiguresHasNoValue) {
  plan::SimulatedRow row{"x001"};
  for (const char* together : {"", "range", "mean", "lowest"}) {
    row.together = together;
    EXPECT_THROW(some_figures().values(row), Error) << together;
  }
}

TEST(Figures, V3_InputsHoldFigures) {
  const Figures figures = some_figures();
  plan::SimulatedRow row{"x001"};
  row.terms = {{number("8"), number("2")}};
  row.inputs = "this is {number:.1f}, no more";
  EXPECT_EQ(figures.inputs(row), "this is 8.0, no more");
  for (const char* wrong : {"this is {number", "this is {number:s}", "this is {number:{}}"}) {
    row.inputs = wrong;
    EXPECT_THROW(figures.inputs(row), Error) << wrong;
  }
}

TEST(Figures, V3_OnlyTheOrderOfSomeRowsCounts) {
  PhoneFolder folder;
  folder.published.emplace_back();
  plan::PublishedRow& published = folder.published.back();
  published.id = "x001";
  published.values = {{"small", "J", 1.0, 1.0, 1.0, ""}, {"large", "J", 3.0, 3.0, 3.0, ""}};
  TestRows rows(folder);
  plan::SimulatedRow row{"x001"};
  row.kind = plan::kOrderedRow;
  row.terms = {{number("5")}, {number("4")}};
  plan::SimulatedRow other{"x001", "large"};
  other.kind = "value";
  other.reason = "nobody can";
  add_rows({{{"g", {row, other}}}, {}, {}}, some_figures(), &rows);
  row.terms.pop_back();
  EXPECT_THROW(add_rows({{{"g", {row}}}, {}, {}}, some_figures(), &rows), Error);
  const TestReport report = rows.take("no paper");
  ASSERT_EQ(report.orderings.size(), 1u);
  EXPECT_FALSE(report.orderings[0].is_kept);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_FALSE(report.rows[0].base.simulated.has_value());
  EXPECT_EQ(report.rows[0].reason, "nobody can");
}

TEST(Figures, V3_WhatIsNotKnownIsNamed) {
  const Figures figures = some_figures();
  EXPECT_THROW(figures.value({"colour", {}}), Error);
  EXPECT_THROW(figures.value({"number", {{"is", "1"}, {"was", "2"}}}), Error);
  EXPECT_THROW(figures.value({"number", {}}), Error);
}

}  // namespace
}  // namespace troika::papers
