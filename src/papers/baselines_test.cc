#include "papers/baselines.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "tests/support/repository.h"

namespace troika::papers {
namespace {

const std::string kPhones = test::repository_file("phones");

TEST(Baselines, V3_RowsAreMarkedTestAndSimulated) {
  const PhoneFolder folder = read_phone_folder(kPhones);
  const MicroReport report = simulate_baselines(folder);
  int n_table5 = 0;
  int n_gpu = 0;
  for (const MicroRow& row : report.rows) {
    EXPECT_EQ(row.row->use, "test") << row.row->id;
    ASSERT_TRUE(row.simulated.has_value());
    EXPECT_GT(*row.simulated, 0.0);
    EXPECT_EQ(row.split, Split::kNone);
    n_table5 += row.row->what.starts_with("llama.cpp, CPU:") ? 1 : 0;
    n_gpu += row.row->id == "hf056" ? 1 : 0;
  }
  // A task takes the time of its prompt and of its answer, and a longer prompt takes longer.
  std::map<std::string, std::map<std::string, double>> tasks;  // [row][name]
  for (const MicroRow& row : report.rows) {
    if (row.row->what.starts_with("llama.cpp, CPU:")) {
      tasks[row.row->id][row.value->name] = *row.simulated;
    }
  }
  std::map<std::string, std::map<double, double>> prefill_s;  // [model][length]
  for (auto& [id, values] : tasks) {
    EXPECT_NEAR(values["end to end"], values["prefill"] + values["decode"], 1e-9) << id;
    const plan::PublishedRow& row = *plan::find_row(folder.published, id);
    const std::string model = row.configuration.substr(0, row.configuration.find(','));
    prefill_s[model][task_lengths(row).prompt] = values["prefill"];
  }
  EXPECT_EQ(prefill_s.size(), 5u);
  for (const auto& [model, times] : prefill_s) {
    for (auto at = times.begin(); std::next(at) != times.end(); ++at) {
      EXPECT_LT(at->second, std::next(at)->second) << model << ", " << at->first << " tokens";
    }
  }
  EXPECT_EQ(n_table5, 25 * 3);  // counts the sum, prefill and decode of five tasks with five models
  EXPECT_EQ(n_gpu, 3);
}

TEST(Baselines, LengthsAreTheMiddlesOfTheirRanges) {
  plan::PublishedRow row;
  row.configuration = "Qwen1.5-1.8B, LongBench 2wiki, prompt 1451\u20131673, out 2\u20134, K70";
  EXPECT_EQ(task_lengths(row).prompt, 1562.0);
  EXPECT_EQ(task_lengths(row).output, 3.0);
  EXPECT_EQ(task_lengths(row).prompts(3), (std::vector<int>{1488, 1562, 1636}));
  row.configuration = "prompt 100, out 7";
  EXPECT_EQ(task_lengths(row).prompt, 100.0);
  EXPECT_EQ(task_lengths(row).prompts(2), (std::vector<int>{100, 100}));
  row.configuration = "prompt long, out 7";
  EXPECT_THROW(task_lengths(row), Error);
}

}  // namespace
}  // namespace troika::papers
