#include "prepare/weight_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "engine/session.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

std::vector<float> logits(
    prepare::Load load, std::string* text,
    const test_support::TinyModel& model = test_support::small_model("llama")) {
  prepare::Options options;
  options.memory.load = load;
  options.lanes.n_threads = 2;
  test_support::TinyEngine tiny(model, options);
  *text = tiny.engine->loaded().pages.text;
  Session session(*tiny.engine);
  session.prefill(test_support::random_tokens(model, 60));
  return test_support::copy_of(session.logits());
}

TEST(WeightPages, ResultsDoNotDependOnWhereWeightsLie) {
  std::string mapped;
  std::string copied;
  EXPECT_EQ(logits(prepare::Load::kMap, &mapped), logits(prepare::Load::kCopy, &copied));
  EXPECT_NE(mapped.find("mapped"), std::string::npos) << mapped;
  EXPECT_NE(copied.find("copied into memory"), std::string::npos) << copied;
}

// A checkpoint's own predictors stand between the blocks. Nobody reads them, so that they are not
// copied, and everything around them is.
TEST(WeightPages, P3PredictorsThatNobodyReadsAreNotCopied) {
  test_support::TinyModel model = test_support::small_model("bamboo");
  const auto copied_mb = [&](uint32_t rank) {
    model.predictor_rank = rank;
    std::string mapped, copied;
    EXPECT_EQ(logits(prepare::Load::kMap, &mapped, model),
              logits(prepare::Load::kCopy, &copied, model));
    EXPECT_EQ(copied.find("stays mapped"), std::string::npos) << copied;
    return std::stoi(copied);
  };
  // Predictors of this rank have 10 MB in each block. Of each of their two matrices less than two
  // huge pages are copied with what stands beside it.
  const int n_blocks = static_cast<int>(model.n_layers);
  EXPECT_LE(copied_mb(16'384), copied_mb(0) + n_blocks * 2 * 4);
}

}  // namespace
}  // namespace troika::engine
