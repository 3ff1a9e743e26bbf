#include "measure/work.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_engine.h"

namespace troika::measure {
namespace {

TEST(Work, PairsOfAPromptAreCausal) {
  const Work work = {10, 1000, 1};
  EXPECT_EQ(work.prefill(1), 10 + 1000 + 1);
  EXPECT_EQ(work.prefill(3), 30 + 1000 + 6);
  EXPECT_EQ(work.prefill(2, 5), 20 + 1000 + 6 + 7);
}

TEST(Work, AStepReadsNoMoreThanItsWindows) {
  model::Blueprint blueprint;
  blueprint.ops.resize(3);
  for (model::Op& op : blueprint.ops) op.kind = model::OpKind::kAttention;
  blueprint.ops[1].window = 10;
  const cache::KvShape shape = {3, 2, 32, tensor::Type::kF16,
                                0};  // takes 2 * 2 * 32 * 2 bytes a position
  EXPECT_EQ(kv_bytes_per_step(blueprint, shape, 8), 3 * 8 * 256.0);
  EXPECT_EQ(kv_bytes_per_step(blueprint, shape, 100), (2 * 100 + 10) * 256.0);
}

TEST(Work, AWindowBoundsWhatATokenSees) {
  Work work = {10, 1000, 0};
  work.windowed = {{3, 1}};
  EXPECT_EQ(work.prefill(2), 20 + 1000 + 1 + 2);
  EXPECT_EQ(work.prefill(5), 50 + 1000 + 1 + 2 + 3 + 3 + 3);
  EXPECT_EQ(work.prefill(3, 1), 30 + 1000 + 2 + 3 + 3);
  EXPECT_EQ(work.prefill(2, 5), 20 + 1000 + 3 + 3);
}

TEST(Work, AStepOfSeveralTokensAttendsInWindowsToo) {
  Work work = {10, 1000, 100};
  work.windowed = {{3, 1}};
  EXPECT_EQ(work.step(1, 0), 10 + 1000 + 100 + 1);
  EXPECT_EQ(work.step(2, 5), 20 + 2000 + 100 * (6 + 7) + 3 + 3);
  EXPECT_EQ(work.step(3, 1), 30 + 3000 + 100 * (2 + 3 + 4) + 2 + 3 + 3);
}

}  // namespace
}  // namespace troika::measure
