#include "prepare/weight_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "engine/session.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

std::vector<float> logits(prepare::Load load, std::string* text) {
  prepare::Options options;
  options.memory.load = load;
  options.lanes.n_threads = 2;
  const auto model = test_support::small_model("llama");
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

}  // namespace
}  // namespace troika::engine
