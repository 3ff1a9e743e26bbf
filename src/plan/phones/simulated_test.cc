#include "plan/phones/simulated.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/phones/published.h"
#include "tests/support/json_holes.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::plan {
namespace {

SimulatedFile read_text(const std::string& text) {
  const test::TempFolder folder;
  write_file(folder.file("simulated.json"), text);
  return read_simulated(folder.file("simulated.json"));
}

std::string one_row(const std::string& row) {
  return R"({"version": 1, "groups": [{"group": "g", "kind": "value", "with": {"model": "m"},
            "rows": [)" +
         row + "]}]}";
}

TEST(Simulated, V3_ARowAsksForEachCombinationOfItsArguments) {
  const SimulatedFile file =
      read_text(one_row(R"({"row": "x001", "figure": "f", "with": {"tokens": [1, 2], "phone": ["a",
                            "b"]}, "beside": {"with": {"phone": "c"}}, "together": "range"})"));
  const SimulatedRow& row = file.groups.at(0).rows.at(0);
  ASSERT_EQ(row.terms.size(), 4u);
  EXPECT_EQ(row.kind, "value");
  for (const FigureTerm& term : row.terms) {
    EXPECT_EQ(term.of.text("model"), "m");
    EXPECT_EQ(term.beside->figure, "f");
    EXPECT_EQ(term.beside->text("phone"), "c");
    EXPECT_EQ(term.beside->count("tokens"), term.of.count("tokens"));
  }
  EXPECT_EQ(row.terms[0].of.text("phone"), "a");
  EXPECT_EQ(row.terms[3].of.text("phone"), "b");
}

TEST(Simulated, V3_AFigureBesideAnotherHasArgumentsOfItsOwn) {
  const SimulatedFile file = read_text(one_row(
      R"({"row": "x001", "figure": "f", "together": "mean",
          "beside": [{"figure": "g", "with": {"row": "x002"}}, {"with": {"model": "n"}}]})"));
  const SimulatedRow& row = file.groups.at(0).rows.at(0);
  ASSERT_EQ(row.terms.size(), 2u);
  EXPECT_EQ(row.terms[0].beside->with, (std::map<std::string, std::string>{{"row", "x002"}}));
  EXPECT_EQ(row.terms[1].beside->text("model"), "n");
}

TEST(Simulated, V3_ARowOfWhichOnlyTheOrderCountsHasATermForEachValue) {
  const SimulatedFile file = read_text(one_row(R"({"row": "x001", "kind": "order", "figure": "f",
                            "with": {"system": ["b", "a"]}})"));
  const SimulatedRow& row = file.groups.at(0).rows.at(0);
  ASSERT_EQ(row.terms.size(), 2u);
  EXPECT_EQ(row.terms[0].of.text("system"), "b");
  EXPECT_EQ(row.terms[1].of.text("system"), "a");
}

TEST(Simulated, V3_ARowWithAReasonNeedsNoFigure) {
  const SimulatedFile file = read_text(one_row(R"({"row": "x001", "reason": "nobody can"})"));
  EXPECT_TRUE(file.groups.at(0).rows.at(0).terms.empty());
}

TEST(Simulated, V3_RunsAreGivenValuesOfRowsOrNumbersWithAReason) {
  const SimulatedFile file = read_text(
      R"({"version": 1, "given": [{"name": "a", "row": "x001", "value": "mean"},
          {"name": "b", "number": 2.5, "why": "assumed"}, {"name": "c", "number": [1, 2], "why":
          "Figure 3"}], "lists": [{"name": "l", "rows": ["x002", "x001"], "reason": "a slip"}],
          "groups": []})");
  ASSERT_EQ(file.given.size(), 3u);
  EXPECT_EQ(file.given[0].id, "x001");
  EXPECT_EQ(file.given[0].value, "mean");
  EXPECT_TRUE(file.given[0].numbers.empty());
  EXPECT_EQ(file.given[1].numbers, std::vector<double>{2.5});
  EXPECT_EQ(file.given[2].numbers, (std::vector<double>{1.0, 2.0}));
  ASSERT_EQ(file.lists.size(), 1u);
  EXPECT_EQ(file.lists[0].ids, (std::vector<std::string>{"x002", "x001"}));
  EXPECT_EQ(file.lists[0].reason, "a slip");
}

TEST(Simulated, V3_WhatIsWrongIsNamed) {
  const auto expect_error = [](const std::string& text, const std::string& says) {
    try {
      read_text(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  expect_error(R"({"version": 1})", "no 'groups'");
  expect_error("no JSON", "cannot be read: it is no JSON text");
  expect_error(one_row(R"({"row": "x001", "figure": "f", "beside": )" + std::string(300'000, '[') +
                       std::string(300'000, ']') + "}"),
               "nested more than 32 deep");
  expect_error(one_row(R"({"row": "x001", "figur": "f"})"), "an unknown key 'figur'");
  expect_error(one_row(R"({"row": "x001"})"), "no 'figure'");
  expect_error(one_row(R"({"row": "x001", "figure": ["f", "g"]})"), "no 'together'");
  expect_error(one_row(R"({"row": "x001", "figure": "f", "with": {"tokens": []}})"),
               "an empty list");
  const auto given = [](const std::string& entry) {
    return R"({"version": 1, "groups": [], "given": [)" + entry + "]}";
  };
  expect_error(given(R"({"row": "x001"})"), "without a 'name'");
  expect_error(given(R"({"name": "a"})"), "'a' given with both");
  expect_error(given(R"({"name": "a", "row": "x001", "number": 1, "why": "w"})"), "with both");
  expect_error(given(R"({"name": "a", "number": 1})"), "without a 'why'");
  expect_error(given(R"({"name": "a", "number": "1", "why": "w"})"), "'a' given as no number");
  expect_error(given(R"({"name": "a", "row": "x1"}, {"name": "a", "row": "x2"})"), "'a' twice");
  expect_error(R"({"version": 1, "groups": [], "lists": [{"name": "l"}]})", "without 'name' or");
  EXPECT_THROW(read_simulated("/no/such/file.json"), Error);
  const FigureCall call{"f", {{"tokens", "1.5"}, {"model", "m"}}};
  EXPECT_EQ(call.number("tokens"), 1.5);
  EXPECT_THROW(call.count("tokens"), Error);
  EXPECT_THROW(call.number("model"), Error);
  EXPECT_THROW(call.text("phone"), Error);
}

// A hole is one thing that somebody forgot, in a file that is whole otherwise.
TEST(Simulated, V3_HolesOfTheRealFilesAreSentences) {
  for (const char* paper : kPapers) {
    const std::string path =
        test::repository_file(std::string("phones/simulated/") + paper + ".json");
    int n_refused = 0;
    for (const test::JsonHole& hole :
         test::json_holes(nlohmann::json::parse(test::read_whole(path)))) {
      SCOPED_TRACE(paper + hole.where);
      try {
        read_text(hole.rest.dump());
      } catch (const Error& error) {
        ++n_refused;
        EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_GT(n_refused, 3) << paper;
  }
}

}  // namespace
}  // namespace troika::plan
