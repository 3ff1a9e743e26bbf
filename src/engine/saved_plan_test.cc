// Tests engines that follow a plan from a file.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "prepare/saved_plan.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

class SavedPlans : public testing::Test {
 protected:
  explicit SavedPlans(test_support::TinyModel model = test_support::small_model()) {
    options_.model.file = folder_.file("tiny.gguf");
    options_.lanes.n_threads = 1;
    test_support::write_tiny_model(model, options_.model.file);
  }
  // Returns options of a run that follows this plan.
  prepare::Options options_with(const Engine& made, const plan::Plan& plan) const {
    prepare::Options from_file;
    from_file.model.file = options_.model.file;
    from_file.plan.file = folder_.file("plan.json");
    std::ofstream(from_file.plan.file)
        << plan::to_json({prepare::plan_identity(made.file()), plan});
    return from_file;
  }

  test::TempFolder folder_;
  prepare::Options options_;
};

// Where a head finds its share follows from the model, so that a list for fewer heads ends too
// soon.
TEST_F(SavedPlans, S3SharesForAnotherNumberOfHeadsAreASentence) {
  options_.prompts.prefill = plan::Prefill::kBf16;
  options_.memory.context = 128;
  const Engine made(options_);
  const auto refusal = [&](size_t n_shares) {
    plan::Plan plan = made.plan();
    plan.attention.form = plan::AttentionForm::kQuery;
    plan.attention.head_shares.assign(n_shares, 0.5f);
    const prepare::Options with_plan = options_with(made, plan);
    return test::message_of<Error>([&] { const Engine engine(with_plan); });
  };
  const model::Blueprint& blueprint = made.blueprint();
  EXPECT_EQ(refusal(static_cast<size_t>(blueprint.n_layers * blueprint.n_heads)), "");
  EXPECT_NE(refusal(1).find("shares of positions for 1 heads"), std::string::npos) << refusal(1);
}

}  // namespace
}  // namespace troika::engine
