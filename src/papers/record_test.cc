#include "papers/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

const std::string kPhonesOfRecord = test::repository_file("phones");

TEST(Record, V3_EveryReportHasOneFirstPredictionAndEveryChangeAReason) {
  std::multiset<std::string> firsts;
  std::string date;
  for (const Change& change : read_record(kPhonesOfRecord)) {
    EXPECT_FALSE(change.what.empty());
    EXPECT_GE(change.date, date) << change.what;
    date = change.date;
    EXPECT_FALSE(change.figures.empty()) << change.what;
    EXPECT_EQ(change.reason.empty(), change.kind == ChangeKind::kFirst) << change.what;
    if (change.kind != ChangeKind::kFirst) continue;
    for (const auto& [report, figures] : change.figures) firsts.insert(report);
  }
  EXPECT_EQ(firsts, (std::multiset<std::string>{"baselines", "heterollm", "llm.npu", "micro",
                                                "powerinfer-2", "sd.npu", "shadowattn"}));
}

TEST(Record, AWrongFileIsASentence) {
  const test::TempFolder folder;
  const std::string path = folder.file("record.json");
  const std::string phones = std::filesystem::path(path).parent_path().string();
  EXPECT_THROW(read_record(phones), Error);
  std::ofstream(path) << R"({"changes": [{"date": "today", "kind": "whim"}]})";
  EXPECT_THROW(read_record(phones), Error);
}

}  // namespace
}  // namespace troika::papers
