// Runs a trained chat model from elsewhere, where scripts/real_model.py has fetched it.
#include <cstdlib>
#include <filesystem>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    std::string folder = cache != nullptr && cache[0] == '/' ? cache : "";
    if (folder.empty() && home != nullptr) folder = std::string(home) + "/.cache";
    model_ = folder + "/troika/models/SmolLM2-135M-Instruct.Q4_1.gguf";
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
