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

TEST(Record, V3_AnOverviewShowsReportsNowAndAsFirstPredicted) {
  Change first;
  first.kind = ChangeKind::kFirst;
  first.date = "2026-01-02";
  first.figures["sd.npu"] = {{"all", 31.25}};
  Change mended = first;
  mended.kind = ChangeKind::kCorrection;
  mended.what = "a bus";
  mended.reason = "it was free";
  mended.figures["sd.npu"] = {{"all", 12.0}};
  RecordedFigures figures_now = {{"all", 12.0}, {"kept", 3}, {"orderings", 4}};
  for (const char* kind : {"values", "ratios", "ranges"}) figures_now[kind] = 100.0;
  const Overview now = {"sd.npu", 42, figures_now};
  const std::string text = overview_text({now, {"micro", 7, {{"fit", 0.5}}}}, {first, mended});
  const auto line_of = [&](const std::string& beginning) {
    const size_t at = text.find("\n" + beginning) + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(line_of("sd.npu ").find(" 42 "), std::string::npos) << text;
  EXPECT_NE(line_of("sd.npu ").find("all 12.0 %, 3 of 4 orderings"), std::string::npos) << text;
  EXPECT_NE(line_of("sd.npu ").find("all 31.2 %, on 2026-01-02"), std::string::npos) << text;
  EXPECT_NE(line_of("micro ").find("fit 0.5 %"), std::string::npos) << text;
  EXPECT_TRUE(line_of("micro ").ends_with("  -")) << text;
  // What stands below "as first predicted" begins where it does, however long a line is.
  const size_t column = text.find("as first predicted");
  EXPECT_EQ(line_of("sd.npu ").find("all 31.2 %"), column) << text;
  EXPECT_EQ(line_of("micro ").rfind("-"), column) << text;
  EXPECT_EQ(line_of("  2026"), "  2026-01-02 mended: a bus") << text;
  EXPECT_EQ(line_of("      why"), "      why: it was free") << text;
  EXPECT_EQ(line_of("      sd.npu"), "      sd.npu: all 12.0 %") << text;
}

TEST(Record, V3_AReportWithoutRowsOfAKindHasNoMedianOfIt) {
  EXPECT_EQ(figures_text(figures_of(TestReport())), "all 0.0 %");
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
