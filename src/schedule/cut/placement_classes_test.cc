#include "schedule/cut/placement_classes.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

struct LlamaToPlace {
  forge::HollowModel hollow{model::get_known("tiny-llama"), "q8_0"};
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
};

plan::Plan plan_beside(const char* kind, const char* device, std::vector<const char*> places,
                       plan::Prefill prefill) {
  plan::Plan plan;
  plan.lanes = {{}, {}};
  plan.lanes[1].kind = kind;
  plan.lanes[1].device = device;
  plan.activations = plan::Activations::kF32;
  plan.prefill = prefill;
  for (const char* place : places) {
    plan.placements.push_back(plan::placement_from_text(place));
  }
  return plan;
}

std::string sentence_about(const plan::Plan& plan) {
  const LlamaToPlace m;
  try {
    check_placements(plan, m.blueprint);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// The cache reuses what passes of any width computed, because the plan calls it one class.
TEST(PlacementClasses, FloatsOfADeviceAreNotThoseOfNarrowPassesOnCores) {
  for (const char* place : {"ffn@32=1", "@2=1", "ffn@prompt=1", "head@8=1", "attention@512=1"}) {
    plan::Plan plan = plan_beside("opencl", "0", {place}, plan::Prefill::kF32);
    const std::string why = sentence_about(plan);
    EXPECT_NE(why.find("how many tokens go together"), std::string::npos) << place << ": " << why;
    EXPECT_NE(why.find("opencl:0"), std::string::npos) << why;
    plan.placements[0].mixes_classes = true;
    EXPECT_EQ(sentence_about(plan), "accepted") << place;
    plan.placements[0].mixes_classes = false;
    plan.lanes[1] = {};
    EXPECT_EQ(sentence_about(plan), "accepted") << place;
  }
  for (const char* place : {"=1", "ffn=1", "head=1", "attention=1"}) {
    const plan::Plan plan = plan_beside("opencl", "0", {place}, plan::Prefill::kF32);
    EXPECT_EQ(sentence_about(plan), "accepted") << place;
  }
  // Other blocks may be elsewhere, each in all shapes.
  plan::Plan plan = plan_beside("opencl", "0", {"ffn=1"}, plan::Prefill::kF32);
  plan.placements[0].n_blocks = 1;
  EXPECT_EQ(sentence_about(plan), "accepted");
}

// Shapes of which a rule allows other results say nothing about those behind them.
TEST(PlacementClasses, ARuleThatMixesClassesHoldsForItsOwnShapesAlone) {
  plan::Plan plan = plan_beside("opencl", "0", {"ffn@step=1", "ffn@512=1"}, plan::Prefill::kF32);
  ASSERT_EQ(plan.body_shapes().front().phase, plan::Phase::kStep);
  plan.placements[0].mixes_classes = true;
  EXPECT_NE(sentence_about(plan).find("executables of 128 tokens"), std::string::npos)
      << sentence_about(plan);
  plan.placements[1].mixes_classes = true;
  EXPECT_EQ(sentence_about(plan), "accepted");
}

// Prompts and steps are classes of their own where they compute in different ways.
TEST(PlacementClasses, H13_APhaseHasAClassOfItsOwn) {
  plan::Plan plan = plan_beside("openvino", "CPU", {"ffn@prompt=1"}, plan::Prefill::kBf16);
  EXPECT_EQ(sentence_about(plan), "accepted");
  plan.placements[0].least_tokens = 128;
  EXPECT_NE(sentence_about(plan).find("as in ffn@prompt=1"), std::string::npos)
      << sentence_about(plan);
  // The cores of the device's lane look up embeddings.
  plan.placements.push_back(plan::placement_from_text("embed@128=1"));
  plan.placements.front().least_tokens = 1;
  EXPECT_EQ(sentence_about(plan), "accepted");
  plan.placements.front().least_tokens = 128;
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(sentence_about(plan), "accepted");
  plan = plan_beside("opencl", "0", {"ffn@8=1"}, plan::Prefill::kInt8);
  EXPECT_NE(sentence_about(plan).find("as in ffn@step=1"), std::string::npos);
  plan.placements = {plan::placement_from_text("ffn@prompt=1")};
  EXPECT_EQ(sentence_about(plan), "accepted");
}

// A cut that gives a whole product to one lane, and a length, place it as a rule does.
TEST(PlacementClasses, CutsAndLengthsPlaceToo) {
  plan::Plan plan = plan_beside("opencl", "0", {}, plan::Prefill::kF32);
  plan.cuts = {plan::cut_from_text("ffn.ffn_down@32=rows:1:1")};
  EXPECT_NE(sentence_about(plan).find("how many tokens go together"), std::string::npos);
  plan.cuts = {plan::cut_from_text("ffn.ffn_down=rows:1:1")};
  EXPECT_EQ(sentence_about(plan), "accepted");
  plan = plan_beside("opencl", "0", {"ffn=1"}, plan::Prefill::kF32);
  plan.lengths = {plan::length_from_text("0:256,0:44")};
  EXPECT_NE(sentence_about(plan).find("how many tokens go together"), std::string::npos);
}

}  // namespace
}  // namespace troika::schedule
