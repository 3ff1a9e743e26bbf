// Runs a trained chat model from elsewhere, where scripts/real_model.py has fetched it.
#include <filesystem>

#include "tests/program/troika.h"
#include "tests/support/real_model.h"

namespace troika::test {
namespace {

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    model_ = test_support::real_model_path();
    if (!std::filesystem::exists(model_)) {
      GTEST_SKIP() << "run scripts/real_model.py once: there is no " << model_;
    }
  }
  std::string model_;
};

// The answer is the same in every precision of prompts, and in the one that is taken when nobody
// says which.
TEST_F(RealModel, KnowsTheCapitalOfFrance) {
  for (const char* prefill : {"auto", "q8", "f32", "bf16", "same", "int8"}) {
    const Finished finished = troika({"run", model_, "-p", "The capital of France is", "-n", "5",
                                      "--temp", "0", "--prefill", prefill});
    expect_success(finished);
    EXPECT_EQ(finished.out.rfind(" Paris.", 0), 0u) << prefill << ": " << finished.out;
  }
}

}  // namespace
}  // namespace troika::test
