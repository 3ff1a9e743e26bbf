#include "plan/plan_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

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
  file.plan.arrangements = {{1, 896, 4864, {Phase::kPrompt, 512}, "32 rows"}};
  file.plan.short_rest = 24;
  file.plan.reuse_granule = 16;
  Int8Plan& int8 = file.plan.int8;
  int8.method = Int8Method::kShadow;
  int8.outlier_prune = 85;
  int8.text = "a book.txt";
  int8.n_tokens = 8192;
  int8.quantile = 0.999;
  int8.perplexity = 12.5;
  int8.losses = {{"shadow", 0, 0.001}, {"static", 100, 1.5}};
  int8.inputs = {{"blk.0.attn_q.weight", 70.5f, 2.25f, 30.0f, 1.5, 3, {17, 4}, {1.0f, 0.3f}},
                 {"blk.0.ffn_up.weight", 8.0f, 4.0f, 4.0f, 0.5, 1, {}, {}}};
  file.plan.order = Order::kLockStep;
  file.plan.chunks_in_flight = 3;
  file.plan.splits = {.at_norms = true, .at_activations = true};
  file.plan.step_costs = {{1, 25.5}, {8, 30.0}};
  file.plan.cuts = {cut_from_text("ffn.ffn_down@2-64=rows:0:3328,1:1536+tokens:0:257,1:44"),
                    cut_from_text("attention@step=heads:0:1,1:1")};
  file.plan.cuts[0].mixes_classes = true;
  file.plan.lengths = {length_from_text("0:301"), length_from_text("0:512,0:77,1:56")};
  file.tuned = {"2026-11-22T22:15:00Z", "troika 0.1.0", "0123456789abcdef", "opencl:0: a device"};
  return file;
}

// Returns the message of the error that reading `text` gives.
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

PlanFile with_sparse_attention() {
  PlanFile file = example();
  file.plan.prefill = Prefill::kBf16;
  file.plan.prompt_shapes = {32, 128};
  file.plan.attention = {AttentionForm::kSparse, 0.125, 2048};
  file.plan.splits.at_activations = false;  // by neuron, both products of a block are one task
  file.plan.ffn = {FfnForm::kByNeuron, {0.5f, 0.25f}};
  file.plan.reuse_granule = kAttentionTile;
  return file;
}

TEST(PlanJson, SparseAttentionSurvivesTheRoundTrip) {
  const std::string text = to_json(with_sparse_attention());
  const Plan again = plan_from_json(text, "plan.json").plan;
  EXPECT_EQ(again.attention, (PromptAttention{AttentionForm::kSparse, 0.125, 2048}));
  EXPECT_EQ(again.ffn, (FfnPlan{FfnForm::kByNeuron, {0.5f, 0.25f}}));
  EXPECT_EQ(plan_from_json(to_json(example()), "p").plan.attention, PromptAttention());
  // Shares of heads are kept beside full attention too, for users who ask for sparse attention
  // (S3).
  PlanFile full = example();
  full.plan.attention.head_shares = {0.2f, 1.0f, 0.0333f, 0.7f};
  full.plan.attention.reason = "full: measured";
  EXPECT_EQ(plan_from_json(to_json(full), "p").plan.attention, full.plan.attention);
  // Scales of heads and the division of heads over lanes are kept too (S4, S6).
  PlanFile heads = with_sparse_attention();
  heads.plan.attention.form = AttentionForm::kQuery;
  heads.plan.attention.head_scales = {0.5f, 0.25f, 0.125f, 3.0f};
  heads.plan.attention.n_buckets = 5;
  heads.plan.attention.head_lanes = {1, 0, 0};
  heads.plan.attention.head_stage = HeadStage::kFused;
  const std::string of_heads = to_json(heads);
  EXPECT_EQ(plan_from_json(of_heads, "p").plan.attention, heads.plan.attention);
  for (const auto& [from, to] :
       {std::pair("\"buckets\": 5", "\"buckets\": 4"), std::pair("\"fused\"", "\"sideways\"")}) {
    std::string damaged = of_heads;
    damaged.replace(damaged.find(from), std::string(from).size(), to);
    EXPECT_THROW(plan_from_json(damaged, "p"), Error) << from;
  }
  // Nothing else divides heads or fixes scales.
  for (const AttentionForm form : {AttentionForm::kFull, AttentionForm::kSparse}) {
    PlanFile other = heads;
    other.plan.attention.form = form;
    EXPECT_THROW(plan_from_json(to_json(other), "p"), Error);
    other.plan.attention.head_lanes.clear();
    EXPECT_THROW(plan_from_json(to_json(other), "p"), Error);
    other.plan.attention.n_buckets = 0;
    EXPECT_NO_THROW(plan_from_json(to_json(other), "p"));
  }
  const std::pair<const char*, const char*> damages[] = {
      {"\"form\": \"sparse\"", "\"form\": \"blocks\""},
      {"\"share\": 0.125", "\"share\": 1.5"},
      {"\"from\": 2048", "\"from\": 2047"},
      {"\"prefill\": \"bf16\"", "\"prefill\": \"same\""},
      {"\"reuse_granule\": 64", "\"reuse_granule\": 32"},
      {"    128\n", "    100\n"},
  };
  for (const auto& [from, to] : damages) {
    std::string other = text;
    const size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    other.replace(at, std::string_view(from).size(), to);
    EXPECT_THROW(plan_from_json(other, "plan.json"), Error) << to;
  }
}

TEST(PlanJson, SurvivesTheRoundTrip) {
  const PlanFile file = example();
  const PlanFile again = plan_from_json(to_json(file), "plan.json");
  EXPECT_EQ(again.made_for, file.made_for);
  EXPECT_EQ(to_json(again), to_json(file));
  EXPECT_EQ(again.plan.lane_of("ffn", {Phase::kStep, 8}), 1);
  ASSERT_EQ(again.plan.arrangements.size(), 1u);
  EXPECT_EQ(again.plan.arrangements[0].arrangement, "32 rows");
  EXPECT_EQ(again.plan.arrangements[0].shape, (Shape{Phase::kPrompt, 512}));
  EXPECT_EQ(again.plan.short_rest, 24);
  EXPECT_EQ(again.plan.reuse_granule, 16);
  EXPECT_EQ(again.plan.lanes[0].cores, (std::vector<int>{0, 2}));
  EXPECT_EQ(again.plan.order, Order::kLockStep);
  EXPECT_EQ(again.plan.chunks_in_flight, 3);
  EXPECT_EQ(again.plan.splits, file.plan.splits);
  EXPECT_EQ(again.plan.cuts, file.plan.cuts);
  EXPECT_EQ(again.plan.lengths, file.plan.lengths);
}

TEST(PlanJson, KeepsDevices) {
  PlanFile file = example();
  file.plan.lanes[0] = lanes_from_text("opencl:1@3", {3}).front();
  const PlanFile again = plan_from_json(to_json(file), "plan.json");
  EXPECT_EQ(lane_text(again.plan.lanes[0]), "opencl:1@3");
  EXPECT_EQ(again.plan.lanes[0].n_threads, 0);
  file.plan.lanes[0].device = "x";
  EXPECT_THROW(plan_from_json(to_json(file), "plan.json"), Error);
  file.plan.lanes = lanes_from_text("opencl:1", {});
  file.plan.lanes.push_back(file.plan.lanes[0]);
  EXPECT_THROW(plan_from_json(to_json(file), "plan.json"), Error);
}

TEST(PlanJson, N7OlderPlansSayNothingOfTheOrder) {
  const PlanFile again = plan_from_json(changed("  \"order\": \"lock-step\",\n", ""), "plan.json");
  EXPECT_EQ(again.plan.order, Order::kOutOfOrder);
}

TEST(PlanJson, N8OlderPlansCallAnArrangementALayout) {
  std::string text = changed("\"arrangements\":", "\"layouts\":");
  const std::string from = "\"arrangement\":";
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), "\"layout\":");
  EXPECT_EQ(to_json(plan_from_json(text, "plan.json")), to_json(example()));
}

TEST(PlanJson, N3KeepsTheCalibration) {
  const Int8Plan int8 = plan_from_json(to_json(example()), "plan.json").plan.int8;
  EXPECT_EQ(int8.method, Int8Method::kShadow);
  ASSERT_EQ(int8.inputs.size(), 2u);
  EXPECT_EQ(int8.inputs[0].limit, 2.25f);
  EXPECT_EQ(int8.inputs[0].hot_channels, (std::vector<int>{17, 4}));
  // Magnitudes are written rounded up.
  ASSERT_EQ(int8.inputs[0].channel_largest.size(), 2u);
  EXPECT_GE(int8.inputs[0].channel_largest[1], 0.3f);
  EXPECT_LT(int8.inputs[0].channel_largest[1], 0.302f);
}

TEST(Int8Plan, N6TheLeastImportantInputsLoseTheirOutliers) {
  Int8Plan int8;
  for (const float largest : {5.0f, 90.0f, 20.0f, 7.0f}) {
    int8.inputs.push_back({"w", largest, 1.0f, 1.0f, 0, 0, {}, {}});
  }
  const auto shadowed = [&](int prune) {
    int8.outlier_prune = prune;
    return int8.shadowed();
  };
  EXPECT_EQ(shadowed(0), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(shadowed(50), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(shadowed(85), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(shadowed(100), (std::vector<bool>(4, false)));
}

TEST(PlanJson, P11Int4WeightsSurviveTheRoundTrip) {
  PlanFile file = example();
  file.plan.int8.weight_scales = WeightScales::kInt4;
  file.plan.int8.weight_outliers = 2.5;
  const Int8Plan read = plan_from_json(to_json(file), "plan.json").plan.int8;
  EXPECT_EQ(read.weight_scales, WeightScales::kInt4);
  EXPECT_EQ(read.weight_outliers, 2.5);
}

TEST(PlanJson, RefusalsNameFileAndField) {
  const struct {
    const char* from;
    const char* to;
    const char* field;
  } kCases[] = {
      {"\"version\": 2", "\"version\": 1", "'version'"},  // is from before plans told phases
      {"\"version\": 2", "\"version\": \"two\"", "'version'"},
      {"\"context\": 4096", "\"context\": 0", "'context'"},
      {"\"context\": 4096", "\"context\": 1e99", "'context'"},
      {"\"context\": 4096", "\"context\": 99999999999999999999", "'context'"},
      {"\"kv\": \"Q8_0\"", "\"kv\": \"Q4_0\"", "'kv'"},
      {"\"method\": \"shadow\"", "\"method\": \"dark\"", "'int8.method'"},
      {"\"outlier_prune\": 85", "\"outlier_prune\": 101", "'int8.outlier_prune'"},
      {"\"weight_scales\": \"row\"", "\"weight_scales\": \"all\"", "'int8.weight_scales'"},
      {"\"limit\": 2.25", "\"limit\": 0", "'int8.inputs[0].limit'"},
      {"\"limit\": 2.25", "\"limit\": -1", "'int8.inputs[0].limit'"},
      {"blk.0.ffn_up.weight", "blk.0.attn_q.weight", "'int8.inputs[1].weight'"},
      {"\"channel_largest\": \"3f80", "\"channel_largest\": \"zf80",
       "'int8.inputs[0].channel_largest'"},
      {"\"channel_largest\": \"3f80", "\"channel_largest\": \"bf80",
       "'int8.inputs[0].channel_largest'"},
      {"        17,\n", "        4,\n        17,\n", "'int8.inputs[0].hot_channels'"},
      {"\"lock-step\"", "\"sideways\"", "'order'"},
      {"\"chunks_in_flight\": 3", "\"chunks_in_flight\": 0", "'chunks_in_flight'"},
      {"\"chunks_in_flight\": 3", "\"chunks_in_flight\": 65", "'chunks_in_flight'"},
      {"\"cut_at_norms\": true", "\"cut_at_norms\": 1", "'cut_at_norms'"},
      {"\"cut_at_activations\": true", "\"cut_at_activations\": 1", "'cut_at_activations'"},
      {"\"activations\": \"f32\"", "\"activations\": \"f8\"", "'activations'"},
      {"\"prefill\": \"int8\"", "\"prefill\": \"int9\"", "'prefill'"},
      {"\"reuse_granule\": 16", "\"reuse_granule\": 0", "'reuse_granule'"},
      {"\"reuse_granule\": 16", "\"reuse_granule\": 513", "'reuse_granule'"},  // no pass holds it
      {"\"short_rest\": 24", "\"short_rest\": 65", "'short_rest'"},
      {"\"phase\": \"prompt\"", "\"phase\": \"prefill\"", "'arrangements[0].phase'"},
      {"\"rows\": 8", "\"rows\": 1", "'step_costs[1].rows'"},
      {"\"ms\": 25.5", "\"ms\": 0", "'step_costs[0].ms'"},
      {"\"program\": \"troika 0.1.0\"", "\"program\": 1", "'tuned.program'"},
      {"\"threads\": 2", "\"threads\": -2", "'lanes[0].threads'"},
      {"\"threads\": 2", "\"threads\": 4096", "'lanes[1].threads'"},
      {"\"subgraph\": \"ffn\"", "\"subgraph\": \"fnn\"", "'placements[0].subgraph'"},
      {"\"kind\": \"host\"", "\"kind\": \"dsp\"", "'lanes[0].kind'"},
      {"\"threads\": 2", "\"threads\": 2, \"device\": \"0\"", "'lanes[0].device' is not known"},
      {"\"kind\": \"host\"", "\"kind\": \"opencl\", \"device\": \"0\"",
       "'lanes[0].threads' is not known"},
      {"\"kind\": \"host\"", "\"kind\": \"npu\"", "'lanes[0].cores' is not known"},
      {"\"lane\": 1", "\"blocks\": -1, \"lane\": 1", "'placements[0].blocks'"},
      {"\"lane\": 1", "\"mixes_classes\": 1, \"lane\": 1", "'placements[0].mixes_classes'"},
      {"\"lane\": 1", "\"lane\": 2", "'placements[0].lane'"},
      {"\"least_tokens\": 2", "\"least_tokens\": null", "'placements[0].least_tokens'"},
      {"\"kv\": \"Q8_0\",", "", "'kv' is missing"},
      {"\"n_rows\": 896", "\"n_rows\": 0", "'arrangements[0].n_rows'"},
      {"\"arrangement\": \"32 rows\"", "\"arrangement\": 32", "'arrangements[0].arrangement'"},
      {"\"model_bytes\": 123456789012", "\"model_bytes\": -1", "'made_for.model_bytes'"},
  };
  for (const auto& c : kCases) {
    const std::string message = refusal(changed(c.from, c.to));
    EXPECT_NE(message.find("plan.json: " + std::string(c.field)), std::string::npos)
        << c.from << " -> " << c.to << ": " << message;
  }
}

// Whoever misspells a field by hand would go on without it.
TEST(PlanJson, FieldsThatNoPlanHasAreRefusedAtEveryLevel) {
  PlanFile file = with_sparse_attention();
  file.plan.ffn.predictor = {0x12, 64, 1000};
  file.plan.npu = NpuPlan{};
  file.plan.heads = HeadPlan{};
  file.plan.neurons = NeuronPlan{};
  file.plan.neurons->hot = {{1, 5, 2}};
  const auto json = nlohmann::json::parse(to_json(file));
  size_t n_objects = 0;
  // Adds a field to each object of the file, one after the other.
  const std::function<void(const nlohmann::json::json_pointer&)> visit =
      [&](const nlohmann::json::json_pointer& at) {
        const nlohmann::json& value = json[at];
        if (value.is_object()) {
          ++n_objects;
          nlohmann::json with = json;
          with[at]["busy_percnt"] = 50;
          const std::string message = refusal(with.dump());
          EXPECT_NE(message.find("busy_percnt' is not known; there may be "), std::string::npos)
              << at << ": " << message;
        }
        if (!value.is_structured()) return;
        for (const auto& [key, inner] : value.items()) {
          if (value.is_array()) visit(at / static_cast<size_t>(std::stoul(key)));
          if (value.is_object()) visit(at / key);
        }
      };
  EXPECT_EQ(refusal(json.dump()), "");
  visit(nlohmann::json::json_pointer());
  EXPECT_GT(n_objects, 25u);
}

// Options of attention do nothing beside a plan from a file.
TEST(PlanJson, S1WhatIsWrongWithAttentionIsSaidInTheWordsOfTheFile) {
  PlanFile file = with_sparse_attention();
  file.plan.prefill = Prefill::kF32;
  const std::string message = refusal(to_json(file));
  EXPECT_NE(message.find("Use 'prefill' q8, bf16 or int8"), std::string::npos) << message;
  EXPECT_EQ(message.find("‹"), std::string::npos) << message;
}

TEST(PlanJson, H3H5RefusalsOfCutsAndLengthsNameTheField) {
  const struct {
    const char* from;
    const char* to;
    const char* field;
  } kCases[] = {
      {"\"op\": \"ffn_down\"", "\"op\": 3", "'cuts[0].op'"},
      {"\"subgraph\": \"attention\"", "\"subgraph\": \"mind\"", "'cuts[1].subgraph'"},
      {"\"subgraph\": \"attention\"", "\"subgraph\": \"head\"", "'cuts[1].heads'"},
      {"\"most_tokens\": 64", "\"most_tokens\": 1", "'cuts[0].most_tokens'"},
      {"\"most_tokens\": 64", "\"most_tokens\": -1", "'cuts[0].most_tokens'"},
      {"\"n\": 1536", "\"n\": 0", "'cuts[0].rows[1].n'"},
      {"\"n\": 1536", "\"n\": 16777216", "'cuts[0].rows'"},
      {"\"n\": 1536", "\"n\": 1e9", "'cuts[0].rows[1].n'"},
      {"\"n\": 257", "\"n\": 2000000", "'cuts[0].tokens'"},
      {"\"mixes_classes\": true", "\"mixes_classes\": 1", "'cuts[0].mixes_classes'"},
      {"\"n_tokens\": 645", "\"n_tokens\": 644", "'lengths[1].parts'"},
      {"\"n_tokens\": 645", "\"n_tokens\": 0", "'lengths[1].n_tokens'"},
      {"\"n_tokens\": 301", "\"n_tokens\": 99999999999999999999", "'lengths[0].n_tokens'"},
      {"\"n\": 77", "\"n\": -5", "'lengths[1].parts[1].n'"},
  };
  for (const auto& c : kCases) {
    const std::string message = refusal(changed(c.from, c.to));
    EXPECT_NE(message.find("plan.json: " + std::string(c.field)), std::string::npos)
        << c.from << " -> " << c.to << ": " << message;
  }
}

TEST(PlanJson, H5MoreLengthsThanAPlanHoldsAreRefused) {
  PlanFile file = example();
  file.plan.lengths.clear();
  for (int n = 1; n <= 256; ++n) file.plan.lengths.push_back({n, {{0, n}}});
  EXPECT_EQ(plan_from_json(to_json(file), "plan.json").plan.lengths.size(), 256u);
  file.plan.lengths.push_back({257, {{0, 257}}});
  const std::string message = refusal(to_json(file));
  EXPECT_NE(message.find("'lengths' holds more than 256"), std::string::npos) << message;
}

// Who reads a plan looks through all rules for each subgraph, and has a file of a stranger.
TEST(PlanJson, MoreLanesAndRulesThanAPlanHoldsAreRefused) {
  const auto refusal_of = [](const auto& change) {
    PlanFile file = example();
    change(file.plan);
    return refusal(to_json(file));
  };
  const auto has_lanes = [&](size_t n) {
    return refusal_of([&](Plan& plan) {
      plan.lanes.resize(2);
      for (size_t i = 2; i < n; ++i) {
        plan.lanes.push_back({{}, 0, "openvino"});
        plan.lanes.back().device = "X" + std::to_string(i);
      }
    });
  };
  EXPECT_EQ(has_lanes(1024), "");
  EXPECT_EQ(has_lanes(1025), "plan.json: 'lanes' holds more than 1024 entries.");
  const auto has_rules = [&](size_t n, auto Plan::*rules) {
    return refusal_of([&](Plan& plan) {
      const auto first = (plan.*rules).front();
      (plan.*rules).assign(n, first);
    });
  };
  EXPECT_EQ(has_rules(8192, &Plan::placements), "");
  EXPECT_EQ(has_rules(8193, &Plan::placements),
            "plan.json: 'placements' holds more than 8192 entries.");
  EXPECT_EQ(has_rules(8193, &Plan::cuts), "plan.json: 'cuts' holds more than 8192 entries.");
  EXPECT_EQ(has_rules(8193, &Plan::arrangements),
            "plan.json: 'arrangements' holds more than 8192 entries.");
}

// Parsed, such a text would take gigabytes.
TEST(PlanJson, RefusesWhatHasMillionsOfValues) {
  std::string many = "{\"z\": [0";
  for (int i = 0; i < 9'000'000; ++i) many += ",0";
  EXPECT_NE(refusal(many + "]}").find("millions of values"), std::string::npos);
}

TEST(PlanJson, N12StagesOfANpuAreKnownByName) {
  PlanFile file = example();
  file.plan.npu = NpuPlan{NpuStage::kOutlier, 40};
  std::string text = to_json(file);
  EXPECT_EQ(plan_from_json(text, "plan.json").plan.npu, file.plan.npu);
  const size_t at = text.find("\"outlier\"");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string message = refusal(text.replace(at, 9, "\"inlier\""));
  EXPECT_NE(message.find("'npu.stage'"), std::string::npos) << message;
}

TEST(PlanJson, S6HeadsAndLayoutsOfAPhoneSurvive) {
  PlanFile file = example();
  file.plan.lanes = {{{}, 1, "cpu"}, {{}, 1, "npu"}};
  file.plan.placements.clear();
  file.plan.arrangements.clear();
  file.plan.cuts.clear();
  file.plan.lengths.clear();
  EXPECT_EQ(plan_from_json(to_json(file), "plan.json").plan.heads, std::nullopt);
  EXPECT_FALSE(plan_from_json(to_json(file), "plan.json").plan.changes_layouts);
  file.plan.heads = HeadPlan{1, 0, HeadStage::kOverlap, 5, 4, 0.125, true};
  file.plan.changes_layouts = true;
  const Plan again = plan_from_json(to_json(file), "plan.json").plan;
  EXPECT_EQ(again.heads, file.plan.heads);
  EXPECT_TRUE(again.changes_layouts);
  const auto refusal_of = [&](const char* key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_json(file));
    json["heads"][key] = value;
    return refusal(json.dump());
  };
  const std::pair<const char*, nlohmann::json> cases[] = {
      {"estimate", 2}, {"select", -1}, {"step", "x"}, {"buckets", 4}, {"block", 0}, {"share", 1.5}};
  for (const auto& [key, value] : cases) {
    const std::string message = refusal_of(key, value);
    EXPECT_NE(message.find(std::string("'heads.") + key), std::string::npos) << message;
  }
}

TEST(PlanJson, LanesOfAPhoneAndRulesForSomeBlocksSurvive) {
  PlanFile file = example();
  file.plan.lanes = {{{}, 1, "cpu"}, {{}, 1, "npu"}};
  file.plan.placements = {{"ffn", 2, 1, 20, Phase::kStep}, {"", 0, 0}};
  file.plan.placements[0].mixes_classes = true;
  const plan::Plan again = plan_from_json(to_json(file), "plan.json").plan;
  EXPECT_EQ(again.lanes[1].kind, "npu");
  EXPECT_TRUE(again.placements[0].mixes_classes);
  EXPECT_FALSE(again.placements[1].mixes_classes);
  EXPECT_EQ(again.lane_of("ffn", {Phase::kStep, 8}, 19), 1);
  EXPECT_EQ(again.lane_of("ffn", {Phase::kStep, 8}, 20), 0);
  EXPECT_EQ(again.lane_of("ffn", {Phase::kStep, 1}, 3), 0);
  EXPECT_EQ(again.lane_of("ffn", {Phase::kPrompt, 8}, 19), 0);
  file.plan.lanes[0].kind = "npu";
  EXPECT_NE(refusal(to_json(file)).find("'lanes[1].kind' is 'npu' again"), std::string::npos);
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

// Copies of such a value would use up the stack.
TEST(PlanJson, RefusesWhatIsNestedDeeply) {
  constexpr size_t kDeep = 300'000;
  const std::string list = std::string(kDeep, '[') + std::string(kDeep, ']');
  std::string objects;
  for (size_t i = 0; i < kDeep; ++i) objects += "{\"z\":";
  for (const std::string& deep : {list, objects + "1" + std::string(kDeep, '}')}) {
    EXPECT_EQ(refusal(changed("\"model_bytes\"", "\"z\": " + deep + ", \"model_bytes\"")),
              "plan.json: it is nested more than 32 deep, as no such file is.");
  }
}

}  // namespace
}  // namespace troika::plan
