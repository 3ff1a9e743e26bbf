#include "plan/plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/device.h"

namespace troika::plan {
namespace {

// A granule is computed together, so no part of a prompt ends inside of one.
TEST(Plan, S2PartsOfAPromptEndWithWholeGranules) {
  Plan plan;
  plan.prefill = Prefill::kBf16;
  plan.attention = {AttentionForm::kSparse, 0.2, 512};
  EXPECT_EQ(plan.whole_granules(0, 2000, 100), 100);
  EXPECT_EQ(plan.prompt_chunk(700, 2000).n_rows, 512);
  plan.reuse_granule = kAttentionTile;
  EXPECT_EQ(plan.whole_granules(0, 2000, 100), 64);
  // 10 tokens would make no whole granule, so the part is longer.
  EXPECT_EQ(plan.whole_granules(0, 2000, 10), 64);
  EXPECT_EQ(plan.whole_granules(128, 2000, 192), 192);
  EXPECT_EQ(plan.whole_granules(1984, 2000, 10), 16);  // takes the rest
  EXPECT_EQ(plan.whole_granules(1920, 1980, 60), 60);  // ends the prompt
  EXPECT_EQ(plan.prompt_chunk(0, 2000).n_rows, 512);
  EXPECT_EQ(plan.prompt_chunk(700, 2000).n_rows, 1152 - 700);
  EXPECT_EQ(plan.prompt_chunk(1536, 2000).n_rows, 2000 - 1536);
}

TEST(Plan, S2ClassesOfAPromptsTokens) {
  Plan plan;
  plan.prefill = Prefill::kBf16;
  plan.attention = {AttentionForm::kSparse, 0.2, 512};
  EXPECT_EQ(plan.class_at(511, 2000), 1);
  EXPECT_EQ(plan.class_at(512, 2000), 2);
  EXPECT_EQ(plan.class_at(1983, 2000), 2);
  EXPECT_EQ(plan.class_at(1984, 2000), 1);            // is in a tile of only 16 tokens
  EXPECT_EQ(plan.class_at(1536 + 20, 1536 + 30), 0);  // is in a short rest
  EXPECT_EQ(plan.class_at(700, 2000, 700), 1);        // is in a tile that began before
  EXPECT_EQ(plan.class_at(704, 2000, 700), 2);
  plan.attention.form = AttentionForm::kQuery;
  EXPECT_EQ(plan.class_at(1984, 2000), 2);
  EXPECT_EQ(plan.class_at(511, 2000), 1);
  plan.prefill = Prefill::kSame;
  EXPECT_EQ(plan.class_at(1984, 2000), 0);
}

TEST(Lanes, CommasJoinCoresAndSemicolonsPartLanes) {
  const std::vector<PlannedLane> one = lanes_from_text("0,1", {0, 1, 2});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].cores, (std::vector<int>{0, 1}));
  EXPECT_EQ(one[0].n_threads, 2);
  const std::vector<PlannedLane> two = lanes_from_text("2;0,1", {0, 1, 2});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].cores, (std::vector<int>{2}));
  EXPECT_EQ(two[1].n_threads, 2);
}

TEST(Lanes, RefusesWhatMakesNoSense) {
  for (const char* text :
       {"", ",", "0,", "0;", "a", "0 1", "0,0", "0;0", "7", "-1", "0;;1", "99999999999999999999"}) {
    EXPECT_THROW(lanes_from_text(text, {0, 1}), UsageError) << text;
  }
}

TEST(Lanes, AColonMakesADevice) {
  const std::vector<PlannedLane> lanes = lanes_from_text("opencl:3@2;0,1", {0, 1, 2});
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_TRUE(lanes[0].is_device());
  EXPECT_EQ(lanes[0].kind, "opencl");
  EXPECT_EQ(lanes[0].device, "3");
  EXPECT_EQ(lanes[0].cores, std::vector<int>{2});
  EXPECT_EQ(lanes[0].n_threads, 0);
  EXPECT_FALSE(lanes[1].is_device());
  Plan plan;
  plan.lanes = lanes;
  EXPECT_EQ(plan.n_threads(), 2);
  EXPECT_EQ(plan.workers_text(), "2 threads and opencl:3@2");
  plan.lanes = {lanes[0]};
  EXPECT_EQ(plan.n_threads(), 1);  // loading weights needs one thread
  EXPECT_EQ(plan.workers_text(), "opencl:3@2");
}

TEST(Lanes, RefusesDevicesThatMakeNoSense) {
  for (const char* text : {"opencl:", "opencl", ":0", "gpu:0", "host:0", "opencl:x", "opencl:-1",
                           "opencl:00", "opencl:256", "opencl:0@", "opencl:0@7", "opencl:0@0;0",
                           "opencl:0;opencl:0", "opencl:0;", "opencl:0,1", "opencl:0@0,"}) {
    EXPECT_THROW(lanes_from_text(text, {0, 1}), UsageError) << text;
  }
}

TEST(Lanes, ADeviceWithoutItsNumberIsToldHowDevicesAreNamed) {
  const auto problem = [](const char* text) {
    try {
      lanes_from_text(text, {0, 1});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(problem("0;opencl@1").find("opencl:NUMBER"), std::string::npos) << problem("opencl");
  EXPECT_NE(problem("openvino").find("openvino:NAME"), std::string::npos) << problem("openvino");
  EXPECT_NE(problem("0;npu").find("'npu' is no number of a core"), std::string::npos);
  EXPECT_NE(problem("0,").find("is missing"), std::string::npos);
}

TEST(Placement, FirstRuleThatMatchesCounts) {
  Plan plan;
  plan.lanes = {{{0}, 1}, {{1}, 1}};
  plan.placements = {placement_from_text("ffn@2=1"), placement_from_text("ffn=0"),
                     placement_from_text("=1")};
  EXPECT_EQ(plan.lane_of("ffn", {Phase::kStep, 8}), 1);
  EXPECT_EQ(plan.lane_of("ffn", {Phase::kStep, 1}), 0);
  EXPECT_EQ(plan.lane_of("head", {Phase::kStep, 1}), 1);
  EXPECT_EQ(plan.n_threads(), 2);
}

TEST(Placement, LaneZeroWhereNothingMatches) { EXPECT_EQ(Plan().lane_of("qkv", {}), 0); }

TEST(Placement, ARuleMayHoldForAPhase) {
  Plan plan;
  plan.lanes = {{{0}, 1}, {{1}, 1}};
  plan.placements = {placement_from_text("ffn@prompt=1"), placement_from_text("@step=0"),
                     placement_from_text("=1")};
  EXPECT_EQ(plan.lane_of("ffn", {Phase::kPrompt, 1}), 1);
  EXPECT_EQ(plan.lane_of("ffn", {Phase::kStep, 64}), 0);
  EXPECT_EQ(plan.lane_of("qkv", {Phase::kPrompt, 64}), 1);
}

TEST(Phase, ThePromptAloneSaysWhatItsShortRestIs) {
  Plan plan;
  plan.prompt_shapes = {32, 128};
  plan.short_rest = 20;
  EXPECT_EQ(plan.n_prompt_phase(5), 5);  // makes no difference here
  plan.prefill = Prefill::kBf16;
  EXPECT_EQ(plan.n_prompt_phase(5), 0);
  EXPECT_EQ(plan.n_prompt_phase(20), 0);
  EXPECT_EQ(plan.n_prompt_phase(21), 21);
  EXPECT_EQ(plan.n_prompt_phase(128), 128);
  EXPECT_EQ(plan.n_prompt_phase(148), 128);
  EXPECT_EQ(plan.n_prompt_phase(149), 149);
  EXPECT_EQ(plan.prompt_chunk(0, 300), (Shape{Phase::kPrompt, 128}));
  EXPECT_EQ(plan.prompt_chunk(250, 300), (Shape{Phase::kPrompt, 50}));
  EXPECT_EQ(plan.prompt_chunk(250, 270), (Shape{Phase::kPrompt, 6}));
  EXPECT_EQ(plan.prompt_chunk(256, 270), (Shape{Phase::kStep, 14}));
  plan.short_rest = 0;
  EXPECT_EQ(plan.n_prompt_phase(5), 5);
}

TEST(Phase, EqualArithmeticIsOneClass) {
  Plan plan;
  plan.step_shapes = {1, 32};
  plan.prompt_shapes = {32, 128};
  EXPECT_TRUE(plan.has_one_class());
  EXPECT_EQ(plan.body_shapes().size(), 3u);
  plan.prefill = Prefill::kBf16;
  EXPECT_FALSE(plan.has_one_class());
  EXPECT_EQ(plan.body_shapes().size(), 4u);
  plan.prefill = Prefill::kF32;
  EXPECT_FALSE(plan.has_one_class());
  plan.activations = Activations::kF32;
  EXPECT_TRUE(plan.has_one_class());
  plan.ffn.form = FfnForm::kByNeuron;  // steps alone go by neuron
  EXPECT_FALSE(plan.has_one_class());
  plan.prefill = Prefill::kSame;
  EXPECT_TRUE(plan.has_one_class());
}

TEST(Placement, RefusesWhatMakesNoSense) {
  for (const char* text : {"", "ffn", "ffn=", "ffn=-1", "fnn=0", "ffn@=0", "ffn@x=0", "ffn@2",
                           "@1=x", "ffn@prefill=0"}) {
    EXPECT_THROW(placement_from_text(text), UsageError) << text;
  }
  // Plans are not read with more.
  EXPECT_EQ(placement_from_text("ffn@1048576=0").least_tokens, kMostShapeRows);
  EXPECT_THROW(placement_from_text("ffn@1048577=0"), UsageError);
  const std::vector<Placement> on_lane_2 = {{"qkv", 0, 0}, {"ffn", 0, 2}};
  EXPECT_THROW(check_placements(on_lane_2, 2), UsageError);
  EXPECT_NO_THROW(check_placements(on_lane_2, 3));
}

TEST(Lanes, TextsGoBothWays) {
  for (const char* text :
       {"3", "0,1", "0;1", "0,2;1,3", "opencl:0", "opencl:0;0,1", "0;opencl:1@2,3"}) {
    EXPECT_EQ(lanes_text(lanes_from_text(text, {0, 1, 2, 3})), text);
  }
}

TEST(Activations, NamesGoBothWays) {
  for (const Activations a : {Activations::kF32, Activations::kQ8}) {
    EXPECT_EQ(activations_from_name(activations_name(a)), a);
  }
  EXPECT_THROW(activations_from_name("int8"), UsageError);
  for (const Prefill p : {Prefill::kSame, Prefill::kF32, Prefill::kBf16, Prefill::kInt8,
                          Prefill::kQ8, Prefill::kF16}) {
    EXPECT_EQ(prefill_from_name(prefill_name(p)), p);
  }
  EXPECT_THROW(prefill_from_name("auto"), UsageError);  // "auto" is decided before there is a plan
}

TEST(Plan, N4OutliersGetALaneOnlyByARuleOfTheirOwn) {
  Plan plan;
  plan.lanes = {{}, {}};
  plan.placements = {placement_from_text("@2=1")};
  EXPECT_EQ(plan.shadow_lane({Phase::kPrompt, 64}), -1);
  EXPECT_FALSE(plan.places_shadow());
  plan.placements.push_back(placement_from_text("shadow@40=1"));
  EXPECT_TRUE(plan.places_shadow());
  EXPECT_EQ(plan.shadow_lane({Phase::kPrompt, 64}), 1);
  EXPECT_EQ(plan.shadow_lane({Phase::kPrompt, 39}), -1);
}

}  // namespace
}  // namespace troika::plan
