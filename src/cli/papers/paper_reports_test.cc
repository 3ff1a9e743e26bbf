#include "cli/papers/paper_reports.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/papers/reports.h"
#include "plan/phones/published.h"

namespace troika::cli {
namespace {

// A paper whose rows are read but not reported would be missing from 'troika reproduce all'.
TEST(PaperReports, EveryPublishedPaperHasOne) {
  std::multiset<std::string> names;
  for (const PaperReport& paper : paper_reports()) {
    names.insert(paper.name);
    EXPECT_NE(paper.simulate, nullptr) << paper.name;
    EXPECT_NE(paper.to_json, nullptr) << paper.name;
    EXPECT_EQ(paper.trace != nullptr, paper.timeline_rows != nullptr) << paper.name;
  }
  EXPECT_EQ(names, std::multiset<std::string>(std::begin(plan::kPapers), std::end(plan::kPapers)));
}

// A median of no rows is no figure, and least of all 0.
TEST(PaperReports, AMedianOfNothingIsNull) {
  const nlohmann::ordered_json json = report_json(papers::TestReport());
  for (const char* name : {"values", "ratios", "ranges", "all"}) {
    EXPECT_TRUE(json["median_error"][name].is_null()) << name;
  }
  ASSERT_EQ(json["parts"].size(), std::size(papers::kTestSubjects));
  for (const nlohmann::ordered_json& part : json["parts"]) {
    EXPECT_EQ(part["count"], 0);
    EXPECT_TRUE(part["median_error"].is_null()) << part;
  }
}

}  // namespace
}  // namespace troika::cli
