#include "papers/power/reproduce_power.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "papers/power/power_runs.h"
#include "plan/plan_json.h"
#include "tests/support/paper_report.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

using plan::NeuronPipeline;
using plan::NeuronSystem;

const std::string kPhonesOfPower = test::repository_file("phones");
constexpr const char* kModel = "bamboo-7b";
constexpr int kFew = 6;

double rate(PowerRuns& runs, const PowerRun& run) { return runs.result(run).tokens_per_s(); }

TEST(ReproducePower, V3TheTestRowsOfThePaper) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfPower);
  const TestReport report = simulate_powerinfer2(folder);
  test::expect_whole_report(report, 45u);
  EXPECT_GE(report.count(), 70);
  EXPECT_GE(report.count_orderings().n, 30);
}

// A row is simulated with the model that it was measured with, and a mean does not count where a
// peak is printed.
TEST(ReproducePower, V3ARowHasItsOwnModelAndItsOwnQuantity) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfPower);
  std::vector<plan::SimulatedRow> rows;
  for (const plan::SimulatedGroup& group :
       plan::read_simulated(kPhonesOfPower + "/simulated/powerinfer-2.json").groups) {
    rows.insert(rows.end(), group.rows.begin(), group.rows.end());
  }
  int n_of_bamboo = 0;
  for (const plan::SimulatedRow& row : rows) {
    const plan::PublishedRow& published = *plan::find_row(folder.published, row.id);
    EXPECT_TRUE(!published.what.starts_with("peak") || !row.reason.empty()) << row.id;
    if (!published.configuration.starts_with("Bamboo-7B")) continue;
    ++n_of_bamboo;
    for (const plan::FigureTerm& term : row.terms) {
      EXPECT_EQ(term.of.text("model"), kModel) << row.id;
      EXPECT_TRUE(!term.beside || term.beside->text("model") == kModel) << row.id;
    }
  }
  EXPECT_GE(n_of_bamboo, 10);
}

// Rows may ask for what their run does not have.
TEST(ReproducePower, V3_ARowWithAHoleIsASentence) {
  const test::TempFolder temporary;
  const std::string phones = temporary.file("phones");
  std::filesystem::copy(kPhonesOfPower, phones, std::filesystem::copy_options::recursive);
  const std::string path = phones + "/simulated/powerinfer-2.json";
  const auto whole = nlohmann::json::parse(test::read_whole(path));
  const auto refusal = [&](const char* row) {
    nlohmann::json with = whole;
    with["groups"] = {{{"group", "g"}, {"rows", {nlohmann::json::parse(row)}}}};
    test::write_whole(path, with.dump());
    return test::message_of<Error>([&] {
      const PhoneFolder folder = read_phone_folder(phones);
      simulate_powerinfer2(folder);
    });
  };
  EXPECT_NE(refusal(R"({"row": "pf035", "value": "in memory", "kind": "value", "figure": "cache GB",
                        "with": {"model": "bamboo-7b", "system": "QNN", "steps": 2}})")
                .find("'cache GB' needs a system that plans neurons, not 'QNN'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"row": "pf035", "value": "in memory", "kind": "value", "figure": "step ms",
                        "with": {"model": "bamboo-7b", "system": "QNN", "tokens": 8,
                                 "at": 0.5}})")
                .find("'step ms' is one of an answer's steps, and the run has none"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"row": "pf035", "value": "in memory", "kind": "value", "figure": "step ms",
                        "with": {"model": "bamboo-7b", "system": "QNN", "steps": 2, "at": 50}})")
                .find("a share from 0 to 1 as 'at', not 50"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"row": "pf035", "value": "in memory", "kind": "value",
                        "figure": "rate together",
                        "with": {"model": "bamboo-7b", "system": "PowerInfer-2", "samples": 1,
                                 "left": 1}})")
                .find("more than one that goes on"),
            std::string::npos);
}

// Each stage of the ablation also has what the stages before it have.
TEST(ReproducePower, P13EachSystemIsOneSwitch) {
  PowerRuns runs(kPhonesOfPower);
  const auto result = [&](NeuronSystem system) -> const PowerResult& {
    return runs.result({.model = kModel, .system = system, .n_steps = kFew});
  };
  const PowerResult& plain = result(NeuronSystem::kPlain);
  const PowerResult& bundle = result(NeuronSystem::kBundle);
  const PowerResult& cache = result(NeuronSystem::kCache);
  EXPECT_GT(plain.neurons.n_requests, 2 * bundle.neurons.n_requests);
  EXPECT_GT(bundle.tokens_per_s(), plain.tokens_per_s());
  EXPECT_LT(cache.neurons.miss_rate(), bundle.neurons.miss_rate());
  EXPECT_GT(cache.tokens_per_s(), bundle.tokens_per_s());
  EXPECT_GT(result(NeuronSystem::kFlash).tokens_per_s(), result(NeuronSystem::kMap).tokens_per_s());
}

// A core that only asks for reads does not compute. With reads by matrix, that may cost as much as
// it gains.
TEST(ReproducePower, P6ClustersHideMoreReadsThanMatrices) {
  PowerRuns runs(kPhonesOfPower);
  const auto with = [&](NeuronPipeline pipeline) {
    return rate(runs, {.model = kModel, .system = NeuronSystem::kPipeline, .pipeline = pipeline});
  };
  const double by_cluster = with(NeuronPipeline::kCluster);
  EXPECT_GT(by_cluster, with(NeuronPipeline::kMatrix));
  EXPECT_GT(by_cluster, with(NeuronPipeline::kNone));
}

TEST(ReproducePower, P2ThePromptsNextBlockIsReadMeanwhile) {
  PowerRuns runs(kPhonesOfPower);
  PowerRun run{.model = kModel, .n_prompt = 512};
  const PowerResult ahead = runs.result(run);
  run.pipeline = NeuronPipeline::kNone;
  const PowerResult& first = runs.result(run);
  EXPECT_LT(ahead.rate.seconds, first.rate.seconds);
  EXPECT_LT(ahead.rate.flash_alone_share, first.rate.flash_alone_share);
}

TEST(ReproducePower, P1P3HotNeuronsAreTheNpus) {
  PowerRuns runs(kPhonesOfPower);
  const PowerResult& both = runs.result({.model = kModel});
  ASSERT_EQ(both.rate.busy_share.size(), 2u);
  EXPECT_GT(both.rate.busy_share[0], 0.0);
  EXPECT_GT(both.rate.busy_share[1], 0.0);
  EXPECT_GT(both.plan->hot_for(1).n_hot, 0);
  EXPECT_GT(both.tokens_per_s(), rate(runs, {.model = kModel, .system = NeuronSystem::kPipeline}));
}

TEST(ReproducePower, P4P9TheSplitFollowsTheSequences) {
  PowerRuns runs(kPhonesOfPower);
  const PowerRun run{.model = kModel, .ffn_share = 1.0, .n_steps = kFew, .n_sequences = 4};
  const PowerResult& four = runs.result(run);
  EXPECT_GT(four.plan->hot_for(4).n_hot, four.plan->hot_for(1).n_hot);
  EXPECT_GT(four.tokens_per_s(), rate(runs, {.model = kModel, .ffn_share = 1.0, .n_steps = kFew}));
}

TEST(ReproducePower, P10MoreMemoryIsNeverSlowerAndTheBudgetHolds) {
  PowerRuns runs(kPhonesOfPower);
  double before = 0.0;
  for (const double gb : {7.0, 13.0, 19.0}) {
    const PowerResult& result =
        runs.result({.model = "mixtral-8x7b", .memory_gb = gb, .n_steps = kFew});
    EXPECT_GT(result.tokens_per_s(), before);
    before = result.tokens_per_s();
    const plan::NeuronPlan& plan = *result.plan;
    EXPECT_LE(plan.other_bytes + plan.predictor_bytes + plan.scale_bytes + plan.cache_bytes,
              static_cast<uint64_t>(gb * 1e9));
  }
}

// A run with the plan file repeats the run in which the file was made.
TEST(ReproducePower, P8ThePlanFileHoldsNeuronsAndHardware) {
  PowerRuns runs(kPhonesOfPower);
  prepare::Options options = runs.options_of({.model = kModel});
  measure::MeasureOptions measure;
  measure.prefill_tokens = {64};
  measure.decode_tokens = 4;
  measure.decode_context = 16;
  const auto simulate = [&](engine::Engine& engine) {
    engine::Session session(engine);
    return measure::simulate(session, measure);
  };
  engine::Engine first(options);
  ASSERT_TRUE(first.plan().neurons.has_value());
  EXPECT_FALSE(first.plan().neurons->hot.empty());
  const std::string text = plan::to_json({{}, first.plan()});
  const plan::Plan read = plan::plan_from_json(text, "plan.json").plan;
  ASSERT_TRUE(read.neurons.has_value());
  EXPECT_EQ(*read.neurons, *first.plan().neurons);
  options.plan.exact = read;
  engine::Engine again(options);
  EXPECT_EQ(simulate(first).decode.seconds, simulate(again).decode.seconds);
}

// An ordinary run with the same files gives the same figures.
TEST(ReproducePower, TheFiguresAreThoseOfAnyRun) {
  PowerRuns runs(kPhonesOfPower);
  prepare::Options options;
  options.phone.file = kPhonesOfPower + "/8gen3.json";
  options.phone.stack = "powerinfer-2";
  options.phone.has_values = false;
  options.model.file = "mixtral-8x7b";
  options.phone.neurons.live_share = 0.124;
  options.phone.small_shapes = {1};
  options.phone.prompt_shapes = {64};
  options.memory.limit_bytes = 13'000'000'000;
  options.memory.context = 64 + kFew + 8;
  measure::MeasureOptions measure;
  measure.prefill_tokens.clear();
  measure.decode_tokens = kFew;
  measure.decode_context = 64;
  engine::Engine engine(options);
  engine::Session session(engine);
  const PowerResult& ours =
      runs.result({.model = "mixtral-8x7b", .memory_gb = 13.0, .n_steps = kFew});
  EXPECT_DOUBLE_EQ(measure::simulate(session, measure).decode.seconds, ours.rate.seconds);
}

TEST(ReproducePower, ThePictureHasALineForEachSystem) {
  const std::string svg = budget_picture({{7, 2, 1, 0.5}, {19, 11, 4, 0.5}}, "a < b");
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  for (const char* part : {"GB", "clusters of neurons", "LLMFlash", "file mapped"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace troika::papers
