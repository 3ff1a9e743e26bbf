#include "lanes/opencl/run_data.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

class OpenclRunData : public testing::Test {
 protected:
  void SetUp() override {
    const FoundDevice found = find_device();
    if (found.device == nullptr) GTEST_SKIP() << found.problem;
    memory_ = std::make_unique<SharedMemory>(found.device);
    data_ = std::make_unique<RunData>(memory_.get());
  }
  // Returns a run of consecutive tokens behind n_past others.
  lanes::Run chain(size_t n_tokens, size_t n_past) {
    slots_.resize(n_past + n_tokens);
    std::iota(slots_.begin(), slots_.end(), cache::Slot{7});
    const std::span<const cache::Slot> all = slots_;
    visible_.clear();
    for (size_t i = 0; i < n_tokens; ++i) {
      visible_.push_back({all.first(n_past), all.subspan(n_past, i + 1)});
    }
    lanes::Run run;
    run.n_tokens = static_cast<int>(n_tokens);
    run.slots = all.subspan(n_past);
    run.visible = visible_;
    return run;
  }

  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<RunData> data_;
  std::vector<cache::Slot> slots_;
  std::vector<cache::VisibleSlots> visible_;
};

// Executables that are built already still run where there is no memory for a longer one.
TEST(OpenclRunDataOfLittleMemory, KeepsWhatItHasWhereMoreFails) {
  LimitedMemory memory(RunData::bytes_for(64, 0) + 64);
  RunData data(&memory);
  ASSERT_TRUE(data.reserve(64, 0));
  const size_t before = data.bytes();
  EXPECT_FALSE(data.reserve(4096, 0));
  EXPECT_EQ(data.bytes(), before);
  EXPECT_TRUE(data.reserve(64, 0));
  lanes::Run run;
  run.n_tokens = 64;
  EXPECT_TRUE(data.take(run, 0, false));
}

TEST_F(OpenclRunData, TakesMemoryByPositionsAndNotByTheirSquare) {
  constexpr size_t kTokens = 4096, kPast = 1000;
  ASSERT_TRUE(data_->take(chain(kTokens, kPast), 0, true));
  EXPECT_LE(data_->bytes(),
            RunData::bytes_for(kTokens, 0) + RunData::list_bytes_for(kTokens + kPast));
  EXPECT_LE(data_->bytes(), 64 * kTokens);
}

TEST_F(OpenclRunData, ListsAreTakenOnlyWhereKernelsReadThem) {
  constexpr size_t kTokens = 64, kPast = 100000;
  ASSERT_TRUE(data_->reserve(kTokens, 32));
  const size_t of_rows = data_->bytes();
  EXPECT_EQ(of_rows, RunData::bytes_for(kTokens, 32));
  ASSERT_TRUE(data_->take(chain(kTokens, kPast), 32, false));
  EXPECT_EQ(data_->bytes(), of_rows);
  ASSERT_TRUE(data_->take(chain(kTokens, kPast), 32, true));
  EXPECT_EQ(data_->bytes(), of_rows + RunData::list_bytes_for(kTokens + kPast));
  // A text may double before more is taken.
  const size_t of_both = data_->bytes();
  ASSERT_TRUE(data_->take(chain(kTokens, 2 * kPast), 32, true));
  EXPECT_EQ(data_->bytes(), of_both);
}

}  // namespace
}  // namespace troika::lanes::opencl
