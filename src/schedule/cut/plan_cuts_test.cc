#include "schedule/cut/plan_cuts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

struct CutModel {
  explicit CutModel(const char* name) : hollow(model::get_known(name), "q8_0") {}
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
};

plan::Plan plan_of(const char* cut, const char* second_kind = "host") {
  plan::Plan plan;
  plan.lanes = {{}, {}};
  plan.lanes[1].kind = second_kind;
  plan.cuts = {plan::cut_from_text(cut)};
  return plan;
}

std::string refusal(const plan::Plan& plan, const model::Blueprint& blueprint) {
  try {
    check_cuts(plan, blueprint);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlanCuts, RowsBetweenNumericsClassesAreCutOnlyWhereThePlanSaysSo) {
  const CutModel m("llama-3-8b");
  for (const char* cut : {"ffn.ffn_down=rows:0:3,1:1", "attention=heads:0:1,1:1"}) {
    plan::Plan plan = plan_of(cut, "opencl");
    EXPECT_NE(refusal(plan, m.blueprint).find("different numerics classes"), std::string::npos);
    plan.cuts[0].mixes_classes = true;
    EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
    EXPECT_EQ(refusal(plan_of(cut, "npu"), m.blueprint), "accepted");
  }
  // Prompts in int8 have the bits of cores on an OpenCL lane too.
  plan::Plan plan = plan_of("@prompt=rows:0:3,1:1", "opencl");
  EXPECT_NE(refusal(plan, m.blueprint).find("different numerics classes"), std::string::npos);
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  plan.cuts = {plan::cut_from_text("=rows:0:3,1:1")};
  EXPECT_NE(refusal(plan, m.blueprint).find("different numerics classes"), std::string::npos);
}

// The plan already refuses what a lane would refuse when it builds.
TEST(PlanCuts, H4TokensAreCutOnlyBetweenLanesWhoseTokensHaveTheSameBits) {
  const CutModel m("llama-3-8b");
  for (const char* cut : {"ffn=tokens:0:3,1:1", "ffn@prompt=rows:0:1,1:1+tokens:0:64,1:64"}) {
    plan::Plan plan = plan_of(cut, "opencl");
    plan.cuts[0].mixes_classes = true;
    EXPECT_NE(refusal(plan, m.blueprint).find("which tokens it has"), std::string::npos) << cut;
    plan = plan_of(cut, "openvino");
    plan.prefill = plan::Prefill::kInt8;
    EXPECT_EQ(refusal(plan, m.blueprint), "accepted") << cut;
  }
  plan::Plan plan = plan_of("ffn@prompt=tokens:0:3,1:1", "opencl");
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  plan.cuts = {plan::cut_from_text("ffn@step=tokens:0:3,1:1")};
  EXPECT_NE(refusal(plan, m.blueprint).find("tokens of steps"), std::string::npos);
  plan.cuts.clear();
  plan.lengths = {plan::length_from_text("0:256,1:44")};
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  plan.prefill = plan::Prefill::kF32;
  EXPECT_NE(refusal(plan, m.blueprint).find("The length 0:256,1:44"), std::string::npos);
}

// A vendor's runtime adds floats in an order of its own.
TEST(PlanCuts, H13_ProductsInBf16AreCutWithARuntimeOnlyWhereThePlanSaysSo) {
  const CutModel m("llama-3-8b");
  plan::Plan plan = plan_of("ffn@prompt=rows:0:3,1:1", "openvino");
  plan.prefill = plan::Prefill::kBf16;
  EXPECT_FALSE(share_class(plan, 0, 1, std::nullopt));
  EXPECT_NE(refusal(plan, m.blueprint).find("different numerics classes"), std::string::npos);
  plan.cuts[0].mixes_classes = true;
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  plan.cuts = {plan::cut_from_text("ffn@prompt=tokens:0:3,1:1")};
  plan.cuts[0].mixes_classes = true;
  EXPECT_NE(refusal(plan, m.blueprint).find("which tokens it has"), std::string::npos);
  plan.cuts.clear();
  plan.lengths = {plan::length_from_text("0:256,1:44")};
  EXPECT_NE(refusal(plan, m.blueprint).find("The length 0:256,1:44"), std::string::npos);
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  EXPECT_TRUE(share_class(plan, 0, 1, std::nullopt));
}

// Two devices of one runtime have plugins of their own, which add floats in orders of their own.
TEST(PlanCuts, TwoDevicesOfOneRuntimeAreOfOneClassOnlyInWholeNumbers) {
  const CutModel m("llama-3-8b");
  plan::Plan plan = plan_of("ffn@prompt=rows:1:3,2:1", "openvino");
  plan.lanes[1].device = "CPU";
  plan.lanes.push_back(plan.lanes[1]);
  plan.lanes[2].device = "GPU.0";
  plan.prefill = plan::Prefill::kBf16;
  EXPECT_FALSE(share_class(plan, 1, 2, std::nullopt));
  EXPECT_TRUE(share_class(plan, 1, 1, std::nullopt));
  const std::string why = refusal(plan, m.blueprint);
  EXPECT_NE(why.find("openvino:CPU and openvino:GPU.0"), std::string::npos) << why;
  plan.cuts[0].mixes_classes = true;
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
  plan.cuts[0].mixes_classes = false;
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_TRUE(share_class(plan, 1, 2, std::nullopt));
  EXPECT_EQ(refusal(plan, m.blueprint), "accepted");
}

TEST(PlanCuts, H6BesideRowsTheFirstTokensAreCutAndOthersAreWhole) {
  const CutModel m("llama-3-8b");
  const plan::Plan plan = plan_of("out=rows:0:3,1:1+tokens:0:512,1:13");
  for (const lanes::Subgraph& subgraph : cut_into_subgraphs(m.blueprint)) {
    if (std::string(subgraph.name) == "qkv") {
      EXPECT_TRUE(range_cut_of(plan, subgraph, {plan::Phase::kPrompt, 525}).empty());
    }
  }
  plan::Plan ffn = plan_of("ffn.ffn_down=rows:0:3072,1:1024+tokens:0:512,1:13");
  const auto all = cut_into_subgraphs(m.blueprint);
  const auto at = std::find_if(all.begin(), all.end(), [](const lanes::Subgraph& subgraph) {
    return std::string(subgraph.name) == "ffn";
  });
  const plan::Shape shape = {plan::Phase::kPrompt, 525};
  int64_t cells = 0;  // counts rows times tokens of the last product
  bool has_rest = false;
  for (const Piece& piece : lower(*at, {0, range_cut_of(ffn, *at, shape)})) {
    const lanes::Slice& slice = piece.subgraph.slice;
    for (size_t i = 0; i < piece.subgraph.ops.size(); ++i) {
      const model::Op& op = piece.subgraph.ops[i];
      if (op.kind != model::OpKind::kLinear ||
          std::string(op_name(m.blueprint, op)) != "ffn_down") {
        continue;
      }
      const lanes::Range tokens = slice.tokens.within(shape.n_rows);
      const lanes::Range rows = slice.columns_of(i).within(4096);
      cells += int64_t{tokens.size()} * rows.size();
      has_rest = has_rest || (piece.lane == 1 && tokens == lanes::Range{512, 525} &&
                              rows == lanes::Range{0, 4096});
    }
  }
  EXPECT_EQ(cells, int64_t{525} * 4096);
  EXPECT_TRUE(has_rest);
}

// A cut names products, and holds for all that have the name. Parts of one tensor have one name.
TEST(PlanCuts, ProductsOfOneSubgraphHaveNamesOfTheirOwn) {
  for (const model::KnownModel& known : model::known_models()) {
    if (!known.name.starts_with("tiny-")) continue;
    const CutModel m(std::string(known.name).c_str());
    for (const lanes::Subgraph& subgraph : cut_into_subgraphs(m.blueprint)) {
      std::map<std::string, std::string> tensors;
      for (const model::Op& op : subgraph.ops) {
        const bool is_of_experts = op.kind == model::OpKind::kExpertLinear;
        if (!is_product(op) && !is_of_experts) continue;
        const std::string name = op_name(m.blueprint, op);
        EXPECT_NE(name, model::op_kind_name(op.kind)) << known.name << ", " << subgraph.name;
        const std::string& tensor = m.blueprint.weights[static_cast<size_t>(op.weight)].name;
        EXPECT_EQ(tensors.emplace(name, tensor).first->second, tensor) << known.name;
      }
    }
  }
}

TEST(PlanCuts, SharedExpertsAreCutByName) {
  const CutModel m("tiny-qwen2moe");
  for (const char* cut : {"ffn.ffn_gate_shexp=rows:0:1,1:1", "ffn.ffn_up_shexp=rows:0:1,1:1",
                          "ffn.ffn_down_shexp=rows:0:1,1:1"}) {
    EXPECT_EQ(refusal(plan_of(cut), m.blueprint), "accepted");
  }
  EXPECT_NE(refusal(plan_of("ffn.ffn_gate_inp_shexp=rows:0:1,1:1"), m.blueprint).find("fewer than"),
            std::string::npos);
}

}  // namespace
}  // namespace troika::schedule
