#include "papers/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "papers/baselines.h"
#include "papers/hetero/reproduce_hetero.h"
#include "papers/power/reproduce_power.h"
#include "papers/reproduce_npu.h"
#include "papers/reproduce_sd.h"
#include "papers/shadow/reproduce_shadow.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

const std::string kPhonesOfRecord = test::repository_file("phones");

// Whoever moves a figure writes down what did it: the last entry of each report is what the command
// prints.
TEST(Record, V3_ItsLastFiguresAreThoseOfToday) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfRecord);
  const std::map<std::string, RecordedFigures> now = {
      {"micro", figures_of(simulate_micro(folder))},
      {"baselines", figures_of(simulate_baselines(folder))},
      {"llm.npu", figures_of(simulate_llm_npu(folder))},
      {"sd.npu", figures_of(simulate_sd_npu(folder))},
      {"heterollm", figures_of(simulate_heterollm(folder))},
      {"shadowattn", figures_of(simulate_shadowattn(folder))},
      {"powerinfer-2", figures_of(simulate_powerinfer2(folder))}};
  std::map<std::string, RecordedFigures> last;
  for (const Change& change : read_record(kPhonesOfRecord)) {
    for (const auto& [report, figures] : change.figures) last[report] = figures;
  }
  ASSERT_EQ(last.size(), now.size());
  constexpr double kRounding = 0.051;
  for (const auto& [report, figures] : now) {
    for (const auto& [name, value] : figures) {
      ASSERT_EQ(last.at(report).count(name), 1u) << report << ", " << name;
      EXPECT_NEAR(last.at(report).at(name), value, kRounding)
          << report << ", " << name << ": add what changed to phones/record.json";
    }
  }
}

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
