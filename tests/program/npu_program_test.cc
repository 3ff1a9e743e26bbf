// Runs llm.npu's ablation on this machine from the command line.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/program/troika.h"
#include "tests/support/repository.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const json& runs) {
  std::vector<std::string> names;
  for (const json& run : runs) names.push_back(run["name"]);
  return names;
}

class NpuProgram : public ProgramTest {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "two lanes need two cores";
    if (kIsSanitized) GTEST_SKIP() << "what is simulated beside it takes a sanitised program long";
    test_support::TinyModel model = small_model();
    model.type = test_support::kQ8_0;
    model_ = write(model);
  }
  std::string model_;
};

TEST_F(NpuProgram, N12EveryStageOfTheAblationRunsOnThisMachine) {
  const Finished finished =
      troika({"reproduce", "llm.npu", "--phones", repository_file("phones"), "--measure", model_,
              "--prompt", "96", "--chunk", "33", "--rounds", "1", "--json"});
  expect_success(finished);
  const json all = json::parse(finished.out, nullptr, false);
  const json& measured = all["this_machine"];
  EXPECT_EQ(measured["tokens"], 96);
  EXPECT_EQ(measured["chunk"], 33);
  EXPECT_EQ(measured["rounds"], 1);
  EXPECT_EQ(measured["cores"].size(), 2u);
  EXPECT_GT(measured["outliers_per_token"], 0);
  EXPECT_GT(measured["decisions"], 0);
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of(measured["ablation"]),
            (Names{"plain CPU", "naive", "chunk", "outlier", "out-of-order"}));
  EXPECT_EQ(names_of(measured["orders"]), (Names{"in-order", "lock-step", "out-of-order"}));
  EXPECT_EQ(names_of(measured["pruned"]), (Names{"0 %", "85 %", "100 %"}));
  EXPECT_EQ(names_of(measured["one_lane"]), (Names{"int8", "100 %", "85 %"}));
  for (const char* table : {"ablation", "orders", "pruned", "one_lane"}) {
    for (const json& run : measured[table]) {
      SCOPED_TRACE(std::string(table) + ", " + run.dump());
      EXPECT_GT(run["ms"], 0);
      // A single lane waits for nobody.
      const bool has_two_lanes = std::string(table) != "one_lane" && run["name"] != "plain CPU";
      ASSERT_EQ(run["matrix_idle"].is_number(), has_two_lanes);
      if (!has_two_lanes) continue;
      EXPECT_GE(run["matrix_idle"], 0);
      EXPECT_LE(run["matrix_idle"], 1);
    }
  }
  // Graphs that are built for each prompt are what the naive stage costs.
  for (const json& run : measured["ablation"]) {
    EXPECT_EQ(run["build_ms"] > 0, run["name"] == "naive") << run;
  }
  // What was measured stands beside the published figures of the same.
  std::set<std::string> ids;
  for (const json& row : all["rows"]) {
    if (row["measured"].is_number()) ids.insert(row["id"]);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"nf050", "nf194", "nf195", "nf196", "nf197"}));
}

}  // namespace
}  // namespace troika::test
