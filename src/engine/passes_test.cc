#include "engine/passes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

constexpr int kContext = 256;

// Stands for a machine whose free memory the test changes.
struct MemoryOfTest {
  static size_t available() {
    if (is_unreadable) throw std::bad_alloc();
    return n_bytes;
  }
  static inline size_t n_bytes = 0;
  static inline bool is_unreadable = false;
};

// Takes memory for a page of keys and values.
void take_page(cache::KvCache& kv) {
  const cache::SequenceId sequence = kv.open();
  cache::Batch batch;
  batch.add_chain(std::vector<cache::Token>(8), 0, sequence);
  kv.reserve_for(batch);
  kv.close(sequence);
}

prepare::Options short_context() {
  prepare::Options options;
  options.memory.context = kContext;
  return options;
}

// Whoever has begun an answer counts on the slots that there were then.
TEST(Passes, SlotsThatTextsCountOnStayThoughMemoryGetsShort) {
  const test_support::TinyEngine tiny(test_support::small_model(), short_context());
  plan::Ledger without_limit;
  MemoryOfTest::n_bytes = size_t{64} << 20;
  Passes passes(*tiny.engine, &without_limit, MemoryOfTest::available);
  const std::lock_guard<TurnMutex> lock(passes.mutex);
  passes.count_texts(+2);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  MemoryOfTest::n_bytes = 0;
  passes.count_texts(+1);  // finds no memory for itself
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  EXPECT_EQ(without_limit.bytes(plan::Owner::kCache),
            2 * kContext * passes.kv.shape().bytes_per_token());
  passes.end_texts(1);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  passes.end_texts(1);
  EXPECT_EQ(passes.kv.n_limit(), kContext);
  passes.end_texts(1);
  // Nobody counts on more than one context, which the plan has promised.
  passes.count_texts(+2);
  EXPECT_EQ(passes.kv.n_limit(), kContext);
}

// Where nothing says what memory is free, all of it is.
TEST(Passes, UnknownFreeMemoryHasRoomForAllTexts) {
  const test_support::TinyEngine tiny(test_support::small_model(), short_context());
  plan::Ledger without_limit;
  MemoryOfTest::n_bytes = SIZE_MAX;
  Passes passes(*tiny.engine, &without_limit, MemoryOfTest::available);
  const std::lock_guard<TurnMutex> lock(passes.mutex);
  passes.count_texts(+1);
  take_page(passes.kv);
  ASSERT_GT(passes.kv.bytes(), 0u);
  passes.count_texts(+3);
  EXPECT_EQ(passes.kv.n_limit(), 4 * kContext);
}

TEST(Passes, TextsAreCountedRightlyWhereFreeMemoryCannotBeFoundOut) {
  const test_support::TinyEngine tiny(test_support::small_model(), short_context());
  plan::Ledger without_limit;
  MemoryOfTest::n_bytes = size_t{64} << 20;
  Passes passes(*tiny.engine, &without_limit, MemoryOfTest::available);
  const std::lock_guard<TurnMutex> lock(passes.mutex);
  passes.count_texts(+2);
  MemoryOfTest::is_unreadable = true;
  EXPECT_THROW(passes.count_texts(+1), std::bad_alloc);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  passes.end_texts(1);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  MemoryOfTest::is_unreadable = false;
  passes.count_texts(+1);
  EXPECT_EQ(passes.kv.n_limit(), 2 * kContext);
  passes.end_texts(2);
  EXPECT_EQ(passes.kv.n_limit(), kContext);
}

}  // namespace
}  // namespace troika::engine
