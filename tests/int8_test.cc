// Runs prompts in int8 by every method: whole models give the same bits however prompts are
// divided, and the loss is small on a trained model with planted outliers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/system.h"
#include "forge/plant_outliers.h"
#include "measure/evaluate.h"
#include "prepare/plan/saved_plan.h"
#include "tests/support/int8_plan.h"
#include "tests/support/logits.h"
#include "tune/calibrate.h"

namespace troika {
namespace {

using plan::Int8Method;
using test_support::engine_logits;
using test_support::NamedModel;
using test_support::plan_of;
using test_support::TinyModelFile;

constexpr size_t kPromptTokens = 110;

class Int8Models : public testing::TestWithParam<NamedModel> {};

TEST_P(Int8Models, N4PiecesThreadsAndMethodsOfAPromptAgree) {
  const TinyModelFile file(GetParam().model);
  prepare::Options options = file.float_options();
  const auto tokens = test_support::random_tokens(GetParam().model, kPromptTokens);
  const auto exact = engine_logits(options, tokens);
  for (const Int8Method method :
       {Int8Method::kToken, Int8Method::kTokenShadow, Int8Method::kStatic, Int8Method::kShadow,
        Int8Method::kSmooth, Int8Method::kSplit, Int8Method::kGroup}) {
    SCOPED_TRACE(plan::int8_method_name(method));
    options.plan.exact = plan_of(file.float_options(), method, 1.0f);
    const auto whole = engine_logits(options, tokens);
    EXPECT_TRUE(engine_logits(options, tokens, {33, 40}) == whole);
    options.plan.exact->lanes[0].n_threads = 3;
    EXPECT_TRUE(engine_logits(options, tokens, {60}) == whole);
    // These methods clamp at the made-up limits.
    if (method == Int8Method::kStatic || method == Int8Method::kSmooth) continue;
    EXPECT_LE(test_support::rounded_error(GetParam().model, whole, exact), 0.2);
  }
}

// When the shadow takes nearly everything, only the weights are rounded.
TEST_P(Int8Models, N4EverythingBeyondTheLimitIsExactInTheActivations) {
  const TinyModelFile file(GetParam().model);
  prepare::Options options = file.float_options();
  const auto tokens = test_support::random_tokens(GetParam().model, kPromptTokens);
  const auto error_at = [&](float limit, const auto& judge) {
    options.plan.exact = plan_of(file.float_options(), Int8Method::kShadow, limit);
    return test_support::rounded_error(GetParam().model, engine_logits(options, tokens), judge);
  };
  options.plan.exact = plan_of(file.float_options(), Int8Method::kShadow, 1e-4f);
  const auto judge = engine_logits(options, tokens);
  // The small difference of the limits changes how attention rounds to bfloat16, and how the
  // activations of experts are rounded, which have no limits.
  EXPECT_LE(error_at(1e-3f, judge), GetParam().model.n_experts > 0 ? 2e-2 : 5e-3);
  EXPECT_GT(error_at(8.0f, judge), error_at(1e-3f, judge));
}

INSTANTIATE_TEST_SUITE_P(Every, Int8Models, testing::ValuesIn(test_support::tiny_model_variants()),
                         [](const auto& info) { return test_support::test_name(info.param); });

TEST(Int8Plan, N3IsRefusedWithoutACalibrationOrForAnotherModel) {
  const TinyModelFile file(test_support::tiny_model("llama"));
  prepare::Options options = file.float_options();
  const auto refusal = [&] {
    return test::message_of<Error>([&] { const engine::Engine engine(options); });
  };
  options.prompts.int8 = plan::Int8Method::kShadow;
  options.prompts.prefill = std::nullopt;
  EXPECT_NE(refusal().find("--calibrate"), std::string::npos) << refusal();
  options.prompts.int8 = plan::Int8Method::kToken;
  EXPECT_EQ(refusal(), "");
  options.lanes.is_strict_npu = true;
  EXPECT_NE(refusal().find("‹strict-npu›"), std::string::npos) << refusal();
  options.lanes.is_strict_npu = false;
  options.prompts.int8.reset();
  options.plan.exact = plan_of(file.float_options(), Int8Method::kShadow, 1.0f);
  EXPECT_EQ(refusal(), "");
  options.plan.exact->int8.inputs[1].weight = "blk.7.attn_q.weight";
  EXPECT_NE(refusal().find("'int8.inputs[1].weight'"), std::string::npos) << refusal();
  options.plan.exact->int8.inputs.pop_back();
  options.plan.exact->int8.inputs[1].weight =
      plan_of(file.float_options(), Int8Method::kShadow, 1.0f).int8.inputs[1].weight;
  EXPECT_NE(refusal().find("is missing"), std::string::npos) << refusal();
}

// Outliers on a lane of their own take memory, which is reckoned before the weights are looked for.
TEST(Int8Plan, N3OutliersOnALaneOfTheirOwnAreRefusedForAnotherModelToo) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const TinyModelFile file(test_support::tiny_model("llama"));
  prepare::Options options = file.float_options();
  options.prompts.prefill = std::nullopt;
  options.plan.exact = plan_of(file.float_options(), Int8Method::kShadow, 1.0f);
  options.plan.exact->lanes = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  options.plan.exact->placements = {{"shadow", 0, 1}};
  options.plan.exact->int8.method = Int8Method::kSplit;  // takes outliers out of all inputs
  options.plan.exact->int8.inputs.resize(1);
  const std::string refusal =
      test::message_of<Error>([&] { const engine::Engine engine(options); });
  EXPECT_NE(refusal.find("is missing"), std::string::npos) << refusal;
}

// Computes prompts of a model in int8 in some ways that need no calibration.
class Int8Ways : public testing::Test {
 protected:
  void use(const std::string& path) {
    exact_.model.file = path;
    exact_.lanes.n_threads = 1;
    exact_.memory.context = 128;
    exact_.memory.kv_type = tensor::Type::kF32;
    exact_.activations = plan::Activations::kF32;
    exact_.prompts.prefill = plan::Prefill::kF32;
    ways_ = exact_;
    ways_.prompts.prefill = plan::Prefill::kInt8;
  }
  std::vector<reference::Vector> logits(const prepare::Options& options) const {
    return engine_logits(options, test_support::random_tokens(model_, kPromptTokens));
  }

  const test_support::TinyModel model_ = test_support::tiny_model("llama");
  prepare::Options exact_, ways_;
};

TEST_F(Int8Ways, P11WeightsOf4BitsAndTheirOutliersAreWaysOfTheirOwn) {
  const TinyModelFile file(model_);
  use(file.path());
  ways_.prompts.int8 = Int8Method::kToken;
  const auto of = [&](plan::WeightScales scales, double outliers) {
    prepare::Options options = ways_;
    options.prompts.weight_scales = scales;
    options.prompts.weight_outliers = outliers;
    return logits(options);
  };
  const auto exact = logits(exact_);
  const auto rows = of(plan::WeightScales::kRow, 1.0);
  const auto with_outliers = of(plan::WeightScales::kInt4, 5.0);
  const auto without = of(plan::WeightScales::kInt4, 0.0);
  const double row_error = reference::relative_error(rows, exact);
  EXPECT_LT(row_error, reference::relative_error(with_outliers, exact));
  EXPECT_LT(row_error, reference::relative_error(without, exact));
  EXPECT_TRUE(with_outliers != without);
}

// Each group has a scale, so that an outlier coarsens only the levels of its own.
TEST_F(Int8Ways, N11ScalesOfGroupsLoseLessThanOneForEachTokenWhereOutliersArePlanted) {
  const TinyModelFile file(model_);
  const test::TempFolder folder;
  forge::PlantOptions plant;
  plant.input = file.path();
  plant.output = folder.file("planted.gguf");
  plant.channels = 0.004;
  plant.scale = 32;
  forge::plant_outliers(plant);
  use(plant.output);
  const auto exact = logits(exact_);
  ways_.prompts.int8 = Int8Method::kToken;
  const auto tokens = logits(ways_);
  ways_.prompts.int8 = Int8Method::kGroup;
  const auto groups = logits(ways_);
  EXPECT_LT(reference::relative_error(groups, exact),
            0.5 * reference::relative_error(tokens, exact));
  // What has no form in whole numbers would be computed in bfloat16, with a small error too.
  prepare::Options halves = exact_;
  halves.prompts.prefill = plan::Prefill::kBf16;
  EXPECT_TRUE(groups != logits(halves));
}

// The text was written for this test, so no model has read it.
constexpr const char* kText =
    "The old clock in the hall struck seven, and still nobody came down to breakfast. Marian "
    "looked at the door, then at the window, where the rain ran down in long grey lines. \"If "
    "they do not come soon,\" she said to the cat, \"we shall eat the bread without them.\" The "
    "cat yawned and stretched its paws toward the fire. Outside a cart went by, slowly, and the "
    "horse that drew it shook the water from its mane. It was the first day of the holidays, and "
    "the children had meant to walk to the river, to the place where the willows hang over the "
    "water and the boys of the village keep their boats. Now there was nothing to be done but to "
    "read, or to sit by the fire and tell one another stories. ";

class Int8Planted : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = std::string(TROIKA_MODELS) + "/troika-" + GetParam() + "-q8_0.gguf";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is missing: the recipe in models/train makes it";
    }
    forge::PlantOptions plant;
    plant.input = path;
    plant.output = folder_.file("planted.gguf");
    forge::plant_outliers(plant);
    how_.engine.model.file = plant.output;
    how_.engine.lanes.n_threads = 2;
    for (int i = 0; i < 4; ++i) how_.text += kText;
    how_.text_name = "a made-up story";
  }

  static double loss_of(const plan::Int8Plan& int8, const char* method, int outlier_prune) {
    for (const plan::Int8Loss& loss : int8.losses) {
      if (loss.method == method && loss.outlier_prune == outlier_prune) return loss.loss;
    }
    return NAN;
  }

  test::TempFolder folder_;
  tune::CalibrateOptions how_;
};

TEST_P(Int8Planted, N4LosesLittleWhereOneScaleForATensorIsFarOff) {
  // Calibration attends to everything, in float, even where sparse attention is asked for.
  how_.engine.prompts.attention = plan::AttentionForm::kSparse;
  const tune::Calibration calibration = tune::calibrate(how_);
  const plan::Int8Plan& int8 = calibration.int8;
  const double plain = loss_of(int8, "static", 100);
  const double shadow = loss_of(int8, "shadow", 0);
  const double token_shadow = loss_of(int8, "token-shadow", 0);
  std::printf("%s: plain %+.2f %%, N4 %+.2f %%, N4 with a scale per token %+.2f %%\n",
              GetParam().c_str(), 100 * plain, 100 * shadow, 100 * token_shadow);
  EXPECT_GT(plain, 0.1);
  EXPECT_LT(std::fabs(shadow), 0.01);
  EXPECT_LT(std::fabs(token_shadow), 0.01);
  EXPECT_LT(int8.quantile, 1.0);
  for (const plan::Int8Input& input : int8.inputs) {
    EXPECT_LE(input.hot_channels.size(), static_cast<size_t>(input.n_outlier_channels));
    if (input.largest > 0) {
      EXPECT_GE(input.importance(), 0.99) << input.weight;
    }
  }
  // The plan with the calibration can be written, read and run.
  prepare::Options options = how_.engine;
  plan::Plan plan = engine::Engine(options).plan();
  plan.int8 = int8;
  options.plan.file = folder_.file("plan.json");
  {
    const engine::Engine engine(how_.engine);
    std::ofstream(options.plan.file)
        << plan::to_json({prepare::plan_identity(engine.file()), plan});
  }
  options.prompts.int8 = plan::Int8Method::kShadow;
  options.prompts.outlier_prune = 0;
  engine::Engine engine(options);
  EXPECT_EQ(engine.plan().int8.inputs.size(), int8.inputs.size());
  EXPECT_EQ(engine.plan().int8.shadowed(), std::vector<bool>(int8.inputs.size(), true));
  engine::Session session(engine);
  EXPECT_LT(measure::perplexity_of_text(session, how_.text, {}).perplexity, int8.perplexity * 1.02);
}

// Tuning calibrates briefly: in fewer passes, in the numerics class that prompts usually have.
TEST_P(Int8Planted, ABriefCalibrationFindsTheOutliersToo) {
  how_.is_brief = true;
  const tune::Calibration calibration = tune::calibrate(how_);
  EXPECT_EQ(calibration.n_passes, 5u);
  ASSERT_EQ(calibration.int8.losses.size(), 1u);
  EXPECT_LT(std::fabs(loss_of(calibration.int8, "token-shadow", 0)), 0.01);
  int n_outlier_channels = 0;
  for (const plan::Int8Input& input : calibration.int8.inputs) {
    n_outlier_channels += input.n_outlier_channels;
  }
  EXPECT_GT(n_outlier_channels, 0);
}

TEST_P(Int8Planted, ACalibrationThatIsCutOffGoesOnWhereItStood) {
  how_.alternatives = true;
  how_.text.resize(how_.text.size() / 3);
  const auto as_text = [](const tune::Calibration& made) {
    plan::PlanFile file;
    file.plan.prefill = made.prefill;
    file.plan.int8 = made.int8;
    return plan::to_json(file) + made.reason;
  };
  uint64_t n_all = 0;  // counts tokens of a whole calibration
  how_.progress = [&](uint64_t, uint64_t total) { n_all = total; };
  const std::string whole = as_text(tune::calibrate(how_));

  how_.folder = folder_.file("side");
  struct CutOff {};
  std::vector<double> began_at;
  // The first pass has kept nothing yet when it is cut off; later ones go on.
  for (const double share : {0.03, 0.2, 0.6}) {
    bool has_begun = false;
    how_.progress = [&](uint64_t done, uint64_t total) {
      const double at = static_cast<double>(done) / static_cast<double>(total);
      if (!has_begun) began_at.push_back(at);
      has_begun = true;
      if (at > share) throw CutOff();
    };
    EXPECT_THROW(tune::calibrate(how_), CutOff);
  }
  EXPECT_LT(began_at[1], 0.1);
  EXPECT_GT(began_at[2], 0.1);
  how_.progress = {};
  const tune::Calibration rest = tune::calibrate(how_);
  EXPECT_GT(rest.n_found_earlier, rest.n_passes / 3);
  EXPECT_EQ(as_text(rest), whole);
  EXPECT_TRUE(std::filesystem::is_empty(how_.folder));
}

// A brief calibration computes with the keys and values that are asked for.
TEST_P(Int8Planted, ABriefCalibrationGoesOnWithTheSameKeysAndValuesOnly) {
  how_.is_brief = true;
  how_.text.resize(how_.text.size() / 3);
  how_.folder = folder_.file("side");
  struct CutOff {};
  how_.progress = [](uint64_t done, uint64_t total) {
    if (10 * done > 9 * total) throw CutOff();
  };
  EXPECT_THROW(tune::calibrate(how_), CutOff);
  how_.progress = {};
  const tensor::Type cut_off = how_.engine.memory.kv_type;
  how_.engine.memory.kv_type = tensor::Type::kF32;
  ASSERT_NE(cut_off, tensor::Type::kF32);
  EXPECT_EQ(tune::calibrate(how_).n_found_earlier, 0u);
  how_.engine.memory.kv_type = cut_off;
  EXPECT_GT(tune::calibrate(how_).n_found_earlier, 0u);
}

INSTANTIATE_TEST_SUITE_P(Every, Int8Planted, testing::Values("silu", "relu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troika
