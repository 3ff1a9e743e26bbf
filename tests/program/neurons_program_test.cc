// Runs `troika neurons` from the command line: it shows which neurons fire (P8), and makes a
// predictor of them (P3).
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/program/run_test.h"
#include "tests/program/troika.h"
#include "tests/support/repository.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;

TEST(NeuronsProgram, P3P8CountsAndPredictsTheNeuronsOfATrainedModel) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const Finished learned =
      troika({"neurons", model, "--tokens", "800", "--predictor", "64", "--json"});
  expect_success(learned);
  // Whatever is kept is announced with its size.
  for (const char* kind : {"/heat-", "/predictor-"}) {
    const size_t at = learned.err.find(kind);
    ASSERT_NE(at, std::string::npos) << kind << learned.err;
    const std::string line = learned.err.substr(at, learned.err.find('\n', at) - at);
    EXPECT_NE(line.find("B): "), std::string::npos) << line;
  }
  const json found = json::parse(learned.out, nullptr, false);
  ASSERT_EQ(found["layers"].size(), 4u);
  EXPECT_GT(found["live"].get<double>(), 0.05);
  EXPECT_LT(found["live"].get<double>(), 0.3);
  for (const json* layers : {&found["layers"], &found["predictor"]["layers"]}) {
    ASSERT_EQ(layers->size(), 4u);
    for (int layer = 0; layer < 4; ++layer) EXPECT_EQ(layers->at(layer).at("layer"), layer);
  }
  EXPECT_EQ(found["predictor"]["rank"], 64);
  EXPECT_GT(found["predictor"]["layers"][0]["recall"].get<double>(), 0.7);
  const std::vector<std::string> run = {"run", model,    "-p", "Once",  "-n",
                                        "8",   "--temp", "0",  "--ffn", "by-neuron"};
  std::vector<std::string> predicting = run;
  predicting.push_back("--neuron-predictor");
  const Finished predicted = troika(predicting);
  expect_success(predicted);
  EXPECT_NE(predicted.err.find("\nby neuron "), std::string::npos) << predicted.err;
  predicting = {"run", model, "-p", "Once", "--neuron-predictor"};
  expect_refusal(troika(predicting), 2, {"--neuron-predictor", "--ffn"});
  expect_refusal(troika({"neurons", model, "--tokens", "800", "--predictor", "4095"}), 2,
                 {"--predictor 4095", "rank"});
  expect_refusal(troika({"neurons", model, "--tokens", "63"}), 2, {"--tokens", "63"});
  expect_refusal(troika({"sparsity", model, "--tokens", "255"}), 2, {"--tokens", "255"});
  expect_refusal(troika({"neurons", model, "--predictor", "64", "--no-cache"}), 2,
                 {"--no-cache", "--predictor"});
  expect_refusal(troika({"neurons", model, "--predictor", "64", "--memory", "64M"}), 2,
                 {"--memory", "predictor"});
}

// What a run says it left out is what it did not compute.
TEST(NeuronsProgram, P1P3RunsSayHowManyNeuronsTheyComputed) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const auto computed = [&](const char* form, bool is_predicting) {
    std::vector<std::string> words = {"run",    model, "-p",    "Once", "-n",    "8",
                                      "--temp", "0",   "--ffn", form,   "--json"};
    if (is_predicting) words.emplace_back("--neuron-predictor");
    const Finished run = troika(words);
    expect_success(run);
    return json::parse(run.out, nullptr, false)["by_neuron"];
  };
  EXPECT_TRUE(computed("by-output", false).is_null());
  EXPECT_EQ(computed("every-neuron", false)["computed_share"], 1.0);
  const json exact = computed("by-neuron", false);
  EXPECT_EQ(exact["gates_share"], 1.0);
  EXPECT_GT(exact["computed_share"].get<double>(), 0.02);
  EXPECT_LT(exact["computed_share"].get<double>(), 0.4);
  expect_success(troika({"neurons", model, "--tokens", "800", "--predictor", "64"}));
  const json predicted = computed("by-neuron", true);
  EXPECT_LT(predicted["gates_share"].get<double>(), 0.6);
  EXPECT_GE(predicted["gates_share"].get<double>(), predicted["computed_share"].get<double>());
}

TEST(NeuronsProgram, P12SharesThatLeaveNoNeuronOutAreNoted) {
  const std::string relu = repository_file("models/troika-relu-q8_0.gguf");
  const std::string silu = repository_file("models/troika-silu-q8_0.gguf");
  const auto noted = [](const std::string& model) {
    const Finished finished = troika({"sparsity", model, "--tokens", "512", "--keep", "50"});
    expect_success(finished);
    return finished.err.find("these shares leave none out") != std::string::npos;
  };
  EXPECT_TRUE(noted(relu));
  EXPECT_FALSE(noted(silu));
}

// What is counted without a file is printed alone. Neurons are counted on cores, whatever the
// lanes.
TEST(NeuronsProgram, P8NeuronsCanBeCountedWithoutAFile) {
  const Finished counted =
      troika({"neurons", repository_file("models/troika-relu-q8_0.gguf"), "--tokens", "64",
              "--no-cache", "--json", "--lanes", "opencl:0"});
  expect_success(counted);
  const json found = json::parse(counted.out, nullptr, false);
  EXPECT_TRUE(found["file"].is_null()) << counted.out;
  EXPECT_GT(found["live"].get<double>(), 0.05);
  EXPECT_EQ(counted.err.find("heat-"), std::string::npos) << counted.err;
}

// A calibration takes minutes, so what does not go together is told before it.
TEST(NeuronsProgram, P8WhatCannotBePlannedTogetherIsToldBeforeACalibration) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", model, "--choose-neurons"};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  expect_refusal(plan({"--memory", "1G", "--calibrate", "/none.txt"}), 2,
                 {"--calibrate", "--choose-neurons"});
  expect_refusal(plan({}), 2, {"--memory"});
  expect_refusal(plan({"--memory", "1G", "--plan", "/none.json"}), 2, {"another one is given"});
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"--neuron-pipeline", "matrix"}, {"--neurons", "llmflash"}}) {
    const Finished refused =
        plan({"--memory", "1G", "--neuron-reads", "twice", other[0], other[1]});
    expect_refusal(refused, 2, {"--neuron-reads", "--neuron-pipeline"});
    EXPECT_EQ(refused.err.find("no way to run"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.err.find(".."), std::string::npos) << refused.err;
  }
}

TEST(NeuronsProgram, P13StepsOfTheAblationTakeNothingBesideThemInSilence) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const auto run = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"run", model, "-p", "Once", "-n", "2", "--temp", "0"};
    all.insert(all.end(), words.begin(), words.end());
    return troika(all);
  };
  expect_refusal(run({"--neurons", "cache", "--neuron-pins", "50"}), 2,
                 {"--neurons", "--neuron-pins"});
  expect_refusal(run({"--neurons", "pipeline", "--neuron-predictor"}), 2,
                 {"--neurons", "--neuron-predictor"});
  expect_refusal(run({"--neurons", "pipeline", "--neuron-pipeline", "matrix"}), 2,
                 {"--neurons", "--neuron-pipeline"});
  expect_refusal(run({"--neurons", "llmflash", "--neuron-pins", "50"}), 2,
                 {"--neurons", "--neuron-pins"});
  expect_refusal(run({"--neurons", "llmflash", "--neuron-pipeline", "cluster"}), 2,
                 {"--neurons", "--neuron-pipeline"});
  for (const char* stage : {"bundle", "cache", "pipeline", "llmflash"}) {
    expect_refusal(run({"--neurons", stage, "--neuron-hot", "20"}), 2,
                   {"--neurons", "--neuron-hot"});
  }
  for (const char* stage : {"bundle", "cache", "llmflash"}) {
    expect_refusal(run({"--neurons", stage, "--neuron-reads", "twice"}), 2,
                   {"--neurons", "--neuron-reads"});
  }
  expect_refusal(run({"--neuron-reads", "twice", "--neuron-pipeline", "matrix"}), 2,
                 {"--neuron-pipeline", "--neuron-reads"});
  expect_refusal(run({"--neuron-reads", "thrice"}), 2, {"thrice", "once and twice"});
  const Finished whole = run({"--neurons", "cache"});
  expect_success(whole);
  EXPECT_NE(whole.err.find("--neurons is no more than --ffn by-neuron here"), std::string::npos)
      << whole.err;
}

// Returns a little more memory than a refusal says is needed; with that not all neurons have
// places. Empty: the refusal does not say it.
std::string little_memory(const std::string& refusal) {
  const size_t end = refusal.find(" MB are needed");
  EXPECT_NE(end, std::string::npos) << refusal;
  if (end == std::string::npos) return "";
  const double needed = std::stod(refusal.substr(refusal.rfind(' ', end - 1) + 1));
  return std::to_string(static_cast<int64_t>((needed + 1.0) * 1e6));
}

// Several answers need more neurons at once than one, and fewer of them go on as some end.
TEST(NeuronsProgram, P4P9AnswersAtOnceAreTheSameWherePinsFollowTheirNumber) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory differs from run to run";
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  expect_success(troika({"neurons", model, "--tokens", "128"}));
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",    model, "-p",     "Once",      "-n",     "200",
                                      "--temp", "1.5", "--seed", "11",        "--best", "4",
                                      "-c",     "256", "--ffn",  "by-neuron", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  const Finished whole = run({});
  expect_success(whole);
  const json expected = json::parse(whole.out, nullptr, false);
  ASSERT_EQ(expected["answers"].size(), 4u);
  EXPECT_TRUE(expected["stream"].is_null());
  const std::string memory = little_memory(run({"--memory", "1M"}).err);
  for (const char* const pins : {"60,30,0", "0"}) {
    const Finished finished = run({"--memory", memory, "--neuron-pins", pins});
    expect_success(finished);
    const json found = json::parse(finished.out, nullptr, false);
    ASSERT_FALSE(found["stream"].is_null()) << memory;
    EXPECT_GT(found["stream"]["neurons"]["misses"].get<int64_t>(), 0);
    EXPECT_EQ(found["best"], expected["best"]);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(found["answers"][i]["tokens"], expected["answers"][i]["tokens"]) << pins;
    }
  }
  const auto length = [&](size_t i) { return expected["answers"][i]["tokens"].size(); };
  const bool falls = length(0) != length(1) || length(1) != length(2) || length(2) != length(3);
  EXPECT_TRUE(falls) << "answers of equal lengths end together";
}

TEST(NeuronsProgram, P6P7SwitchesOfReadsThatDoNothingAreNoted) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory differs from run to run";
  const auto run = [](const std::string& stage, const std::string& memory,
                      const std::vector<std::string>& more = {"--no-neuron-ahead"}) {
    std::vector<std::string> words = {"run",       repository_file("models/troika-relu-q8_0.gguf"),
                                      "-p",        "Once",
                                      "-n",        "2",
                                      "-c",        "64",
                                      "--neurons", stage,
                                      "--memory",  memory};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  const std::string memory = little_memory(run("cache", "1M").err);
  ASSERT_NE(memory, "");
  const std::string note = "--no-neuron-ahead does nothing here: the stage cache";
  const Finished cache = run("cache", memory);
  expect_success(cache);
  EXPECT_NE(cache.err.find(note), std::string::npos) << cache.err;
  const Finished pipeline = run("pipeline", memory);
  expect_success(pipeline);
  EXPECT_EQ(pipeline.err.find("--no-neuron-ahead"), std::string::npos) << pipeline.err;
  const Finished twice = run("pipeline", memory, {"--neuron-reads", "twice"});
  expect_success(twice);
  EXPECT_NE(twice.err.find("--neuron-reads does nothing here: gates are in memory"),
            std::string::npos)
      << twice.err;
}

// A model of which about a fifth of the neurons fire with each token, with memory for fewer than
// those of three of its four blocks.
class FewPlaces : public RunTest {
 protected:
  FewPlaces()
      : RunTest({"-p", "x", "-n", "8", "--temp", "0", "--draft", "none", "--ignore-end",
                 "--threads", "2", "-c", "64", "--ffn", "by-neuron"}) {}
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory differs from run to run";
    make_model("1");
  }
  // Makes the model. What is known of hot neurons is known of one seed.
  void make_model(const std::string& seed) {
    model_ = folder_.file("planted.gguf");
    expect_success(troika({"synth", "--like", "small-bamboo", "--plant-sparsity", "15%",
                           "--overlap", "0.5", "--blocks", "4", "--seed", seed, model_}));
    const json whole = run_json({});
    ASSERT_TRUE(whole["stream"].is_null());
    constexpr int64_t kTooFewBytes = 28'000'000;
    memory_ = std::to_string(whole["memory"]["total_bytes"].get<int64_t>() - kTooFewBytes);
  }
  // Returns what became of the neurons with little memory.
  json neurons(std::vector<std::string> more) const {
    more.insert(more.end(), {"--memory", memory_});
    json found = run_json(more)["stream"]["neurons"];
    EXPECT_FALSE(found.is_null());
    return found;
  }

 private:
  std::string memory_;
};

// Whatever a block used is needed again when the three others have taken all places. So it does not
// matter either which read comes first.
TEST_F(FewPlaces, P5WithLruATokenFindsNothingOfTheOneBefore) {
  const json lru = neurons({"--neuron-lru"}), usual = neurons({});
  EXPECT_EQ(lru["hits"], 0);
  EXPECT_GT(lru["misses"], 0);
  EXPECT_GT(usual["hits"], 0);
  EXPECT_EQ(usual["hits"].get<int64_t>() + usual["misses"].get<int64_t>(), lru["misses"]);
}

// With --neuron-lru each token reads all that it needs.
TEST_F(FewPlaces, P7NeuronsThatStandAGapApartShareARequest) {
  const json alone = neurons({"--neuron-lru", "--neuron-gap", "0"});
  const json together = neurons({"--neuron-lru", "--neuron-gap", "64K"});
  EXPECT_EQ(alone["gap_bytes"], 0);
  EXPECT_EQ(together["gap_bytes"], 64 << 10);
  EXPECT_EQ(alone["misses"], together["misses"]);
  EXPECT_GT(alone["reads"].get<int64_t>(), 2 * together["reads"].get<int64_t>());
  EXPECT_LT(alone["read_bytes"].get<int64_t>(), together["read_bytes"].get<int64_t>());
}

// The places hold nearly none of the next block's hottest neurons, so that there always is
// something to read ahead.
TEST_F(FewPlaces, P6GenerationReadsTheHottestAheadWhereItIsAskedTo) {
  make_model("2");
  expect_success(troika({"neurons", model_, "--tokens", "128"}));
  EXPECT_EQ(neurons({"--neuron-lru"})["ahead"]["neurons"], 0);
  const json ahead = neurons({"--neuron-lru", "--neuron-ahead"})["ahead"];
  EXPECT_GT(ahead["neurons"], 0);
  EXPECT_GT(ahead["read_bytes"], 0);
}

TEST(NeuronsProgram, P13TheLastStepSaysWhereItIsTheOneBefore) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory differs from run to run";
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  expect_success(troika({"neurons", model, "--tokens", "128"}));
  const auto run = [&](const std::string& memory, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run", model, "-p", "Once", "-n", "2", "-c", "64"};
    words.insert(words.end(), {"--memory", memory, "--neurons"});
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  const std::string memory = little_memory(run("1M", {"powerinfer-2"}).err);
  ASSERT_NE(memory, "");
  const auto is_noted = [&](const std::vector<std::string>& more) {
    const Finished finished = run(memory, more);
    expect_success(finished);
    return finished.err.find("--neurons powerinfer-2 is no more than --neurons pipeline here") !=
           std::string::npos;
  };
  EXPECT_TRUE(is_noted({"powerinfer-2"}));
  EXPECT_FALSE(is_noted({"pipeline"}));
  EXPECT_FALSE(is_noted({"powerinfer-2", "--neuron-pins", "50"}));
  EXPECT_FALSE(is_noted({"powerinfer-2", "--neuron-hot", "3"}));
  EXPECT_FALSE(is_noted({"powerinfer-2", "--neuron-pipeline", "matrix"}));
}

}  // namespace
}  // namespace troika::test
