// Checks the neuron plan of this machine as a part of plan files (P8).
#include "plan/neurons/streamed_neurons.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "plan/plan_json.h"

namespace troika::plan {
namespace {

PlanFile with_streamed_neurons() {
  PlanFile file;
  file.made_for = {"a.gguf", 123, "0123abcd", "a processor, 2 cores"};
  file.plan.context = 512;
  file.plan.ffn.form = FfnForm::kByNeuron;
  StreamedNeurons neurons;
  neurons.reason = "by-neuron, 1.5 ms a token";
  neurons.budget_bytes = 2'000'000'000;
  neurons.weight_bytes = 900'000'000;
  neurons.neuron_bytes = 1'000'000'000;
  neurons.n_neurons = 458'752;
  neurons.n_places = 200'001;
  neurons.n_counted_tokens = 2048;
  neurons.stay = 1.0 / 3.0;
  neurons.forecast = {1.5, 1.25, 0.1, 12.25, 1e6 / 3.0, 0.875};
  neurons.batches = {{1, 0.15, 40'000, 35, neurons.forecast}, {4, 0.4, 90'000, 60, {}}};
  neurons.pipeline = ReadPipeline::kMatrix;
  neurons.pinned_percent = 35;
  neurons.read_bytes = 8192;
  neurons.gap_bytes = 4096;
  neurons.alternatives = {{"by-output", {9.0}, false, ""},
                          {"by-neuron", neurons.forecast, true, ""},
                          {"in two phases", {2.0}, false, "it is read at once here"}};
  neurons.planning_ms = 0.3;
  file.plan.streamed_neurons = neurons;
  return file;
}

// Returns what is said of a plan in which `from` is replaced; empty: it is accepted.
std::string refusal_with(const std::string& from, const std::string& to) {
  std::string text = to_json(with_streamed_neurons());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  try {
    (void)plan_from_json(text.replace(at, from.size(), to), "plan.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StreamedNeuronsPlan, P4PinsGoByTheTokensThatAreComputedTogether) {
  StreamedNeurons neurons;
  EXPECT_EQ(pins_by_tokens(neurons), (std::vector<int>{0}));
  neurons.pinned_percent = 35;
  EXPECT_EQ(pins_by_tokens(neurons), (std::vector<int>{35}));
  neurons.batches = {{.n_sequences = 1, .pinned_percent = 35},
                     {.n_sequences = 2, .pinned_percent = 20},
                     {.n_sequences = 4, .pinned_percent = 60}};
  EXPECT_EQ(pins_by_tokens(neurons), (std::vector<int>{35, 20, 20, 60}));
}

TEST(StreamedNeuronsPlan, P8SurvivesTheRoundTripToTheBit) {
  const PlanFile file = with_streamed_neurons();
  const Plan again = plan_from_json(to_json(file), "plan.json").plan;
  EXPECT_EQ(again.streamed_neurons, file.plan.streamed_neurons);
  PlanFile other = file;
  other.plan.streamed_neurons->gap_bytes.reset();
  EXPECT_EQ(plan_from_json(to_json(other), "p").plan.streamed_neurons, other.plan.streamed_neurons);
  other.plan.streamed_neurons.reset();
  EXPECT_FALSE(plan_from_json(to_json(other), "p").plan.streamed_neurons);
}

TEST(StreamedNeuronsPlan, P8UnknownContentIsRefusedByName) {
  for (const char* key : {"\"reason\"", "\"places\"", "\"stay\"", "\"pinned_percent\"",
                          "\"gap_bytes\"", "\"hit_share\"", "\"obstacle\"", "\"hot\""}) {
    EXPECT_NE(refusal_with(key, "\"surprise\""), "") << key;
  }
  EXPECT_NE(refusal_with("\"obstacle\"", "\"surprise\"").find("'streamed_neurons.alternatives[2]"),
            std::string::npos);
  EXPECT_NE(refusal_with("\"gap_bytes\"", "\"surprise\"").find("surprise' is not known"),
            std::string::npos);
}

TEST(StreamedNeuronsPlan, P8ContradictionsAndImpossibleNumbersAreRefusedInWords) {
  const std::vector<std::array<std::string, 3>> all = {
      {"\"pinned_percent\": 35,\n        \"forecast\"",
       "\"pinned_percent\": 101,\n        \"forecast\"", "0 to 100"},
      {"\"stay\": 0.3333333333333333", "\"stay\": 1.5", "stay"},
      {"\"pipeline\": \"matrix\"", "\"pipeline\": \"sideways\"", "cluster"},
      {"\"reads\": \"once\"", "\"reads\": \"thrice\"", "once"},
      {"\"reads\": \"once\"", "\"reads\": \"twice\"", "their gates are in memory"},
      {"\"form\": \"by-neuron\",\n    \"reason\"", "\"form\": \"by-output\",\n    \"reason\"",
       "'ffn' is by-neuron"},
      {"\"form\": \"by-neuron\",\n    \"reason\"", "\"form\": \"every-neuron\",\n    \"reason\"",
       "by-output"},
      {"\"places\": 200001", "\"places\": 458753", "458752 neurons"},
      {"\"neuron_bytes\": 1000000000", "\"neuron_bytes\": 1100000001", "more than the budget"},
      {"\"chosen\": true", "\"chosen\": false", "must be one"},
      {"\"sequences\": 4", "\"sequences\": 1", "must ascend"},
      {"\"planning_ms\": 0.3", "\"planning_ms\": -1", "planning_ms"}};
  for (const auto& [from, to, expected] : all) {
    const std::string said = refusal_with(from, to);
    EXPECT_NE(said.find(expected), std::string::npos) << to << ": " << said;
    EXPECT_NE(said.find("plan.json"), std::string::npos) << to << ": " << said;
  }
}

TEST(StreamedNeuronsPlan, P8ARefusalIsOneSentenceBehindTheOther) {
  EXPECT_EQ(refusal_with("\"places\": 200001", "\"places\": 458753"),
            "plan.json: 'streamed_neurons' contradicts itself: There are 458753 places and 458752 "
            "neurons. Make the plan again, or leave 'streamed_neurons' out.");
}

TEST(StreamedNeuronsPlan, P7NeuronsAreReadTwiceWhereGatesAreInBundles) {
  PlanFile file = with_streamed_neurons();
  file.plan.ffn.predictor = {7, 64, 1000};
  file.plan.ffn.gates = FfnGates::kInBundles;
  file.plan.streamed_neurons->reads = BundleReads::kTwice;
  file.plan.streamed_neurons->pipeline = ReadPipeline::kCluster;
  const Plan again = plan_from_json(to_json(file), "plan.json").plan;
  EXPECT_EQ(again.streamed_neurons, file.plan.streamed_neurons);
  file.plan.streamed_neurons->pipeline = ReadPipeline::kMatrix;
  EXPECT_THROW(check_bundle_reads(file.plan), UsageError);
  EXPECT_FALSE(read_once_without_gates(&file.plan));
  file.plan.ffn.gates = FfnGates::kInMemory;
  EXPECT_TRUE(read_once_without_gates(&file.plan));
  EXPECT_NO_THROW(check_bundle_reads(file.plan));
  EXPECT_EQ(file.plan.streamed_neurons->reads, BundleReads::kOnce);
  // How they are read may be left out.
  EXPECT_EQ(refusal_with("\"reads\": \"once\",", ""), "");
  EXPECT_THROW(bundle_reads_from_name("thrice"), UsageError);
}

TEST(StreamedNeuronsPlan, P8ThePlanMustBeOfOneLaneAndOfNoPhone) {
  Plan plan = with_streamed_neurons().plan;
  EXPECT_NO_THROW(check_streamed_neurons(plan));
  plan.lanes = {{{0}, 1}, {{1}, 1}};
  EXPECT_THROW(check_streamed_neurons(plan), UsageError);
  plan = with_streamed_neurons().plan;
  plan.neurons = NeuronPlan();
  EXPECT_THROW(check_streamed_neurons(plan), UsageError);
  plan = with_streamed_neurons().plan;
  plan.streamed_neurons->forecast.ms = 1.25;  // not that of the alternative that is chosen
  EXPECT_THROW(check_streamed_neurons(plan), UsageError);
  plan = with_streamed_neurons().plan;
  plan.streamed_neurons->alternatives[1].obstacle = "something";
  EXPECT_THROW(check_streamed_neurons(plan), UsageError);
  plan = with_streamed_neurons().plan;
  plan.ffn.form = plan.streamed_neurons->form = FfnForm::kByOutput;
  EXPECT_THROW(check_streamed_neurons(plan), UsageError);  // it pins
  plan.streamed_neurons->pinned_percent = 0;
  EXPECT_NO_THROW(check_streamed_neurons(plan));
}

}  // namespace
}  // namespace troika::plan
