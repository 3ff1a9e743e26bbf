#include "cli/papers/paper_reports.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

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

}  // namespace
}  // namespace troika::cli
