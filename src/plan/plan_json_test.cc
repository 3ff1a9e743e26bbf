#include "plan/plan_json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace troika::plan {
namespace {

PlanFile example() {
  PlanFile file;
  file.made_for = {"a \"model\".gguf", 123456789012, "0123abcd", "a processor, 2 cores"};
  file.plan.context = 4096;
  file.plan.prefill = Prefill::kInt8;
  file.plan.packed_bytes = 5'000'000'000;
  file.plan.prefill_reason = "asked \"for\"";
  file.plan.kv_type = tensor::Type::kQ8_0;
  file.plan.activations = Activations::kF32;
  file.plan.lanes = {{{0, 2}, 2}, {{1}, 1}};
  file.plan.placements = {{"ffn", 2, 1}, {"", 0, 0}};
  return file;
}

// The message of the error that reading `text` gives.
std::string refusal(const std::string& text) {
  try {
    plan_from_json(text, "plan.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanJson, SurvivesTheRoundTrip) {
  const PlanFile file = example();
  const PlanFile again = plan_from_json(to_json(file), "plan.json");
  EXPECT_EQ(again.made_for, file.made_for);
  EXPECT_EQ(to_json(again), to_json(file));
  EXPECT_EQ(again.plan.lane_of("ffn", 8), 1);
  EXPECT_EQ(again.plan.lanes[0].cores, (std::vector<int>{0, 2}));
}

TEST(PlanJson, RefusalsNameFileAndField) {
  const struct {
    const char* from;
    const char* to;
    const char* field;
  } kCases[] = {
      {"\"version\": 1", "\"version\": 2", "'version'"},
      {"\"version\": 1", "\"version\": \"one\"", "'version'"},
      {"\"context\": 4096", "\"context\": 0", "'context'"},
      {"\"context\": 4096", "\"context\": 1e99", "'context'"},
      {"\"context\": 4096", "\"context\": 99999999999999999999", "'context'"},
      {"\"kv\": \"Q8_0\"", "\"kv\": \"Q4_0\"", "'kv'"},
      {"\"activations\": \"f32\"", "\"activations\": \"f8\"", "'activations'"},
      {"\"prefill\": \"int8\"", "\"prefill\": \"int9\"", "'prefill'"},
      {"    32,\n", "    33,\n", "'shapes'"},
      {"\"threads\": 2", "\"threads\": -2", "'lanes[0].threads'"},
      {"\"subgraph\": \"ffn\"", "\"subgraph\": \"fnn\"", "'placements[0].subgraph'"},
      {"\"kind\": \"host\"", "\"kind\": \"dsp\"", "'lanes[0].kind'"},
      {"\"lane\": 1", "\"blocks\": -1, \"lane\": 1", "'placements[0].blocks'"},
      {"\"lane\": 1", "\"lane\": 2", "'placements[0].lane'"},
      {"\"least_tokens\": 2", "\"least_tokens\": null", "'placements[0].least_tokens'"},
      {"\"shapes\"", "\"forms\"", "'shapes'"},
      {"\"model_bytes\": 123456789012", "\"model_bytes\": -1", "'made_for.model_bytes'"},
  };
  for (const auto& c : kCases) {
    const std::string message = refusal(changed(c.from, c.to));
    EXPECT_NE(message.find("plan.json: " + std::string(c.field)), std::string::npos)
        << c.from << " -> " << c.to << ": " << message;
  }
}

TEST(PlanJson, LanesOfAPhoneAndRulesForSomeBlocksSurvive) {
  PlanFile file = example();
  file.plan.lanes = {{{}, 1, "cpu"}, {{}, 1, "npu"}};
  file.plan.placements = {{"ffn", 2, 1, 20}, {"", 0, 0}};
  const plan::Plan again = plan_from_json(to_json(file), "plan.json").plan;
  EXPECT_EQ(again.lanes[1].kind, "npu");
  EXPECT_EQ(again.lane_of("ffn", 8, 19), 1);
  EXPECT_EQ(again.lane_of("ffn", 8, 20), 0);
  EXPECT_EQ(again.lane_of("ffn", 1, 3), 0);
}

TEST(PlanJson, RefusesShapesThatDoNotAscendAndCoresThatStandTwice) {
  std::string text = to_json(example());
  EXPECT_NE(refusal(changed("    512\n", "    8\n")).find("must ascend"), std::string::npos);
  const size_t core = text.find("        1\n");
  ASSERT_NE(core, std::string::npos);
  EXPECT_NE(refusal(text.replace(core, 9, "        0")).find("core 0 again"), std::string::npos);
}

TEST(PlanJson, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"", "[]", "{", "3", "\"plan\""}) {
    EXPECT_EQ(refusal(text), "plan.json: this is no JSON object.") << text;
  }
}

}  // namespace
}  // namespace troika::plan
