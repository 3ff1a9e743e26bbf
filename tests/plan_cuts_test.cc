// Plans that cut tensors, heads and lengths between lanes give the bits of uncut ones, in every
// architecture: for prompts, steps and rows of a wide step. Cuts that a model cannot have are
// refused in sentences.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/plan_json.h"
#include "tests/support/prompt_case.h"
#include "tests/support/prompt_rows.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::cut_from_text;
using plan::length_from_text;
using test_support::copy_of;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;
using Row = std::vector<float>;

constexpr int kPlanCutContext = 256;
constexpr int kPlanCutChunk = 64;
// The lengths make a rest alone, within and behind the lengths of a cut, and whole chunks with both
// kinds of rests.
constexpr int kPlanCutLengths[] = {9, 60, 75, 80, 150, 2 * kPlanCutChunk + 76};

std::vector<Row> rows_behind(Engine& engine, const TinyModel& model) {
  return test_support::rows_behind(engine, model, kPlanCutLengths, 7);
}

struct CutCase {
  const char* name;
  std::vector<const char*> cuts;
  std::vector<const char*> lengths;
};

const CutCase kPlanCutCases[] = {
    {"H3 and H7: rows of all products", {"=rows:0:3,1:2"}, {}},
    {"H3: rows of one", {".attn_output=rows:1:1,0:1", "head=rows:1:1"}, {}},
    {"H4: tokens of products", {".attn_output@2=tokens:0:40,1:24", "qkv=tokens:1:5,0:9"}, {}},
    {"H5: lengths", {}, {"0:32,1:28", "0:64,0:4,1:12"}},
    {"H6: rows and tokens", {"@2=rows:0:1,1:1+tokens:0:50,1:14"}, {"1:60,0:16"}},
    {"H7: steps alone, with the head", {"@step=rows:0:1,1:1", "head=rows:0:1,1:2"}, {}},
};

const CutCase kThreeLaneCases[] = {
    {"H3: rows of all products", {"=rows:0:3,1:2,2:1"}, {}},
    {"H4: tokens of products",
     {"qkv@64=tokens:0:24,1:24,2:16", ".attn_output@64=tokens:2:30,1:30,0:4"},
     {}},
    {"H5: lengths", {}, {"2:32,0:16,1:12", "0:64,2:4,1:12"}},
    {"H6: rows and tokens", {"@2=rows:0:1,1:1+tokens:0:40,2:24"}, {}},
};

// Heads are cut where a model has at least two for keys.
prepare::Options cut_options(const CutCase& c, const plan::Plan& uncut, bool has_heads,
                             size_t n_lanes = 2) {
  prepare::Options options;
  options.plan.exact = uncut;
  plan::Plan& plan = *options.plan.exact;
  plan.lanes.assign(n_lanes, {{}, 1});
  plan.chunks_in_flight = 2;
  for (const char* text : c.cuts) plan.cuts.push_back(cut_from_text(text));
  if (has_heads) plan.cuts.push_back(cut_from_text("attention=heads:0:1,1:1"));
  for (const char* text : c.lengths) plan.lengths.push_back(length_from_text(text));
  // The plan is read back as from its file.
  options.plan.exact = plan::plan_from_json(plan::to_json({{}, plan}), "plan.json").plan;
  return options;
}

TinyModel plan_cut_model(const std::string& architecture) {
  TinyModel model = test_support::small_model(architecture);
  model.type = test_support::kQ8_0;
  model.context = kPlanCutContext;
  return model;
}

prepare::Options plan_cut_options(const std::string& prefill) {
  prepare::Options options;
  options.memory.context = kPlanCutContext;
  options.prompts.chunk = kPlanCutChunk;
  options.prompts.prefill = plan::prefill_from_name(prefill);
  return options;
}

// Returns how many tasks of all shapes run on a lane.
int n_tasks_of_lane(const Engine& engine, int lane) {
  int n = 0;
  for (const auto* lists : {&engine.graphs().bodies(), &engine.graphs().heads()}) {
    for (const schedule::TaskList& list : *lists) {
      for (const schedule::Task& task : list.tasks) n += task.lane == lane ? 1 : 0;
    }
  }
  return n;
}

class PlanCuts : public testing::TestWithParam<test_support::PromptCase> {};

TEST_P(PlanCuts, H3H4H5H6H7CutsOfPlansKeepTheBits) {
  const TinyModel model = plan_cut_model(GetParam().architecture);
  TinyEngine uncut(model, plan_cut_options(GetParam().prefill));
  const std::vector<Row> expected = rows_behind(*uncut.engine, model);
  for (const CutCase& c : kPlanCutCases) {
    SCOPED_TRACE(c.name);
    prepare::Options options = cut_options(c, uncut.engine->plan(), model.n_kv_heads > 1);
    options.model.file = uncut.folder.file("tiny.gguf");
    Engine engine(options);
    EXPECT_GT(n_tasks_of_lane(engine, 1), 0);
    EXPECT_TRUE(rows_behind(engine, model) == expected);
  }
}

TEST_P(PlanCuts, H10ThreeLanesOnOneTensorKeepTheBits) {
  const TinyModel model = plan_cut_model(GetParam().architecture);
  TinyEngine uncut(model, plan_cut_options(GetParam().prefill));
  const std::vector<Row> expected = rows_behind(*uncut.engine, model);
  for (const CutCase& c : kThreeLaneCases) {
    SCOPED_TRACE(c.name);
    prepare::Options options = cut_options(c, uncut.engine->plan(), model.n_kv_heads > 1, 3);
    options.model.file = uncut.folder.file("tiny.gguf");
    Engine engine(options);
    for (const int lane : {0, 1, 2}) EXPECT_GT(n_tasks_of_lane(engine, lane), 0) << lane;
    EXPECT_TRUE(rows_behind(engine, model) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlanCuts,
                         testing::ValuesIn(test_support::prompt_cases({"same", "q8"})),
                         test_support::case_name);

// Returns how many tasks of a shape run on a lane.
int n_tasks_on(const Engine& engine, plan::Phase phase, int n_rows, int lane) {
  const schedule::TaskList& list = engine.graphs().body(phase, n_rows);
  return static_cast<int>(
      std::count_if(list.tasks.begin(), list.tasks.end(),
                    [&](const schedule::Task& task) { return task.lane == lane; }));
}

TEST(PlanCutsOfALlama, H11TheCutFollowsFromPhaseAndLength) {
  const TinyModel model = plan_cut_model("llama");
  prepare::Options options = plan_cut_options("q8");
  options.lanes.cores = {{{}, 1}, {{}, 1}};
  options.lanes.cuts = {cut_from_text("ffn@prompt=rows:0:1,1:1"),
                        cut_from_text("qkv@2-8=rows:0:1,1:1")};
  options.lanes.lengths = {length_from_text("0:64,1:16")};
  const TinyEngine cut(model, options);
  const int n_blocks = cut.engine->blueprint().n_layers;
  EXPECT_EQ(n_tasks_on(*cut.engine, plan::Phase::kStep, 1, 1), 0);
  EXPECT_EQ(n_tasks_on(*cut.engine, plan::Phase::kStep, 8, 1), n_blocks);
  EXPECT_EQ(n_tasks_on(*cut.engine, plan::Phase::kStep, 9, 1), 0);
  // These are the projection behind attention, the one of gate and up, and the one of down.
  EXPECT_EQ(n_tasks_on(*cut.engine, plan::Phase::kPrompt, 64, 1), 3 * n_blocks);
  EXPECT_EQ(cut.engine->graphs().body(plan::Phase::kPrompt, 70).shape.n_rows, 80);
  EXPECT_GT(n_tasks_on(*cut.engine, plan::Phase::kPrompt, 70, 1), 3 * n_blocks);
  // The engine gets the same plan with cuts switched off.
  options.plan.base = cut.engine->plan();
  options.lanes.cuts.clear();
  options.lanes.lengths.clear();
  options.lanes.has_cuts = false;
  const TinyEngine uncut(model, options);
  EXPECT_EQ(n_tasks_on(*uncut.engine, plan::Phase::kPrompt, 64, 1), 0);
  EXPECT_EQ(uncut.engine->graphs().body(plan::Phase::kPrompt, 64).shape.n_rows, 64);
}

std::string plan_cut_refusal(const prepare::Options& options, const TinyModel& model) {
  try {
    const TinyEngine engine(model, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlanCutsOfALlama, H3CutsThatAModelCannotHaveAreRefusedInASentence) {
  const TinyModel model = plan_cut_model("llama");
  const struct {
    const char* cut;
    const char* part;
  } kRefused[] = {
      {"ffn.attn_q=rows:0:1,1:1", "is of nothing in this model"},
      {"ffn.no_such=rows:0:1,1:1", "is of nothing in this model"},
      {"ffn.ffn_down=rows:0:15,1:1", "fewer than 16 of the 64 rows of 'ffn_down'"},
      {"attention=heads:0:9,1:1", "none of the 2 heads"},
      {"ffn=rows:0:1,2:1", "names lane 2, but the lanes are 0 to 1"},
  };
  for (const auto& [cut, part] : kRefused) {
    prepare::Options options = plan_cut_options("same");
    options.lanes.cores = {{{}, 1}, {{}, 1}};
    options.lanes.cuts = {cut_from_text(cut)};
    EXPECT_NE(plan_cut_refusal(options, model).find(part), std::string::npos)
        << cut << ": " << plan_cut_refusal(options, model);
  }
}

}  // namespace
}  // namespace troika
