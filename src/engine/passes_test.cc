#include "engine/passes.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

constexpr int kContext = 256;

// Stands for a machine whose free memory the test changes.
struct MemoryOfTest {
  static size_t available() { return n_bytes; }
  static inline size_t n_bytes = 0;
};

// Whoever has begun an answer counts on the slots that there were then.
TEST(Passes, SlotsThatTextsCountOnStayThoughMemoryGetsShort) {
  prepare::Options options;
  options.memory.context = kContext;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  plan::Ledger without_limit;
  MemoryOfTest::n_bytes = size_t{64} << 20;
  Passes passes(*tiny.engine, &without_limit, MemoryOfTest::available);
  const std::lock_guard<std::mutex> lock(passes.mutex);
  passes.count_texts(+2);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  MemoryOfTest::n_bytes = 0;
  passes.count_texts(+1);  // finds no memory for itself
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  EXPECT_EQ(without_limit.bytes(plan::Owner::kCache),
            2 * kContext * passes.kv.shape().bytes_per_token());
  passes.count_texts(-1);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  passes.count_texts(-1);
  EXPECT_EQ(passes.kv.n_limit(), kContext);
  passes.count_texts(-1);
  // Nobody counts on more than one context, which the plan has promised.
  passes.count_texts(+2);
  EXPECT_EQ(passes.kv.n_limit(), kContext);
}

}  // namespace
}  // namespace troika::engine
