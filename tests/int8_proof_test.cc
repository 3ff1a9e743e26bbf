#include "tune/proof/held_out.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/engine.h"
#include "forge/plant_outliers.h"
#include "tests/support/temp_folder.h"
#include "tune/calibrate.h"
#include "tune/default_text.h"
#include "tune/findings.h"
#include "tune/proof/text_parts.h"

namespace troika::tune {
namespace {

using plan::Int8Method;
using plan::Prefill;

constexpr size_t kWindows = 2;

// Measures what int8 loses on house models, with and without planted outliers.
class HeldOutHouseModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    house_ = std::string(TROIKA_MODELS) + "/troika-" + GetParam() + "-q8_0.gguf";
    if (!std::filesystem::exists(house_)) {
      GTEST_SKIP() << house_ << " is missing: the recipe in models/train makes it";
    }
    std::tie(calibration_, held_out_) = halves(std::string(default_text()));
  }

  prepare::Options options(bool is_planted) {
    prepare::Options options;
    options.model.file = house_;
    options.lanes.n_threads = 2;
    options.memory.context = HeldOut::kWindow;
    if (!is_planted) return options;
    forge::PlantOptions plant;
    plant.input = house_;
    plant.output = folder_.file("planted.gguf");
    forge::plant_outliers(plant);
    options.model.file = plant.output;
    return options;
  }

  static plan::Plan plan_of(prepare::Options options, Prefill prefill) {
    options.prompts.prefill = prefill;
    return engine::Engine(options).plan();
  }

  PromptLoss loss_of(const prepare::Options& options, const plan::Plan& int8) {
    const plan::Plan exact = plan_of(options, Prefill::kBf16);
    const measure::StageFunction stage = [](const std::string&) { return ProgressFunction(); };
    HeldOut held_out(options, exact, held_out_, kWindows, stage);
    const auto usual = held_out.read("usual", plan_of(options, Prefill::kQ8), nullptr);
    const PromptLoss loss = loss_between(usual, held_out.read("int8", int8, nullptr));
    std::printf("%s: %s\n", GetParam().c_str(), loss_text(loss).c_str());
    return loss;
  }

  test::TempFolder folder_;
  std::string house_, calibration_, held_out_;
};

TEST_P(HeldOutHouseModels, N4AScaleForEachTokenIsLittleLossWithoutOutliersAndTooMuchWithThem) {
  for (const bool is_planted : {false, true}) {
    const prepare::Options how = options(is_planted);
    const PromptLoss loss = loss_of(how, plan_of(how, Prefill::kInt8));
    EXPECT_EQ(verdict_of(loss, kMostLoss),
              is_planted ? LossVerdict::kTooMuch : LossVerdict::kLittle);
    // The tokens that stand in the text show the same loss, with a larger error.
    EXPECT_LT(loss.expected.error, loss.text.error);
    EXPECT_LT(std::fabs(loss.expected.share - loss.text.share), 4 * loss.text.error);
  }
}

TEST_P(HeldOutHouseModels, N4OutliersInFloatBesideAreProvenWhereTheyAreNeeded) {
  const prepare::Options how = options(true);
  CalibrateOptions calibration;
  calibration.engine = how;
  calibration.text = calibration_;
  calibration.text_name = "half";
  calibration.most_tokens = 1024;
  calibration.is_brief = true;
  plan::Plan int8 = plan_of(how, Prefill::kInt8);
  int8.int8 = calibrate(calibration).int8;
  int8.int8.method = Int8Method::kTokenShadow;
  int8.int8.outlier_prune = 0;
  EXPECT_EQ(verdict_of(loss_of(how, int8), kMostLoss), LossVerdict::kLittle);
}

TEST_P(HeldOutHouseModels, NothingIsReadThatIsNotNeeded) {
  const prepare::Options how = options(false);
  const plan::Plan exact = plan_of(how, Prefill::kBf16);
  const measure::StageFunction stage = [](const std::string&) { return ProgressFunction(); };
  HeldOut held_out(how, exact, held_out_, kWindows, stage);
  const auto of_exact = held_out.read("exact", exact, nullptr);
  ASSERT_EQ(of_exact.size(), kWindows);
  for (const double nats : of_exact.front().divergence) EXPECT_EQ(nats, 0.0);
  const auto enough = [](const std::vector<WindowLosses>& windows) { return !windows.empty(); };
  const auto usual = held_out.read("usual", plan_of(how, Prefill::kQ8), enough);
  ASSERT_EQ(usual.size(), 1u);
  EXPECT_EQ(usual.front().nll.size(), of_exact.front().nll.size());
  // What is kept of a measurement reads back as what was measured.
  const nlohmann::json kept = nlohmann::json::parse(to_json(usual).dump());
  const auto again = read_windows(plan::JsonFields::parse(kept.dump(), "kept"));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again.front().nll, usual.front().nll);
  EXPECT_EQ(again.front().divergence, usual.front().divergence);
}

// A text whose tokens are short behind its beginning has fewer tokens there than its mean says.
TEST_P(HeldOutHouseModels, WindowsAreFullWhateverComesBehindThem) {
  const prepare::Options how = options(false);
  const plan::Plan exact = plan_of(how, Prefill::kBf16);
  const measure::StageFunction stage = [](const std::string&) { return ProgressFunction(); };
  std::string text = held_out_.substr(0, 12000);
  for (int i = 0; i < 30000; ++i) text += static_cast<char>('!' + i * 7919 % 94);
  HeldOut held_out(how, exact, text, kWindows, stage);
  size_t n_tokens = 0;
  for (const WindowLosses& window : held_out.read("exact", exact, nullptr)) {
    n_tokens += window.nll.size();
  }
  EXPECT_GE(n_tokens, kLeastProofTokens);
}

INSTANTIATE_TEST_SUITE_P(Every, HeldOutHouseModels, testing::Values("silu", "relu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troika::tune
