#include "tune/timing.h"

#include <gtest/gtest.h>

namespace troika::tune {
namespace {

// A prompt of few tokens is computed as steps are, in any precision: that one of two such times is
// shorter is chance.
TEST(PromptsAsFast, LeavesOutWhatIsComputedAsSteps) {
  plan::Plan int8, same;
  int8.prefill = plan::Prefill::kInt8;
  same.prefill = plan::Prefill::kQ8;
  ASSERT_EQ(int8.n_prompt_phase(2), 0);
  ASSERT_EQ(int8.n_prompt_phase(512), 512);
  const std::vector<PromptTime> a = {{2, 0.1}, {512, 50.0}, {1, 3.0}};
  const std::vector<PromptTime> b = {{2, 0.4}, {512, 100.0}, {1, 3.0}};
  EXPECT_DOUBLE_EQ(prompts_as_fast(a, int8, b, same), 2.0);
  EXPECT_DOUBLE_EQ(prompts_as_fast({{2, 0.1}}, int8, {{2, 0.4}}, same), 1.0);
}

}  // namespace
}  // namespace troika::tune
