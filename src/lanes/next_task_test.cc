#include "lanes/next_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace troika::lanes {
namespace {

TEST(NextTask, H8ExpectsWhatAWaitBehindTheSameTaskTook) {
  NextTask next;
  std::atomic<uint32_t> n{0};
  const int some = 0, other = 0;
  EXPECT_LT(next.expected_us(&some), 0.0);
  // Where others use the processors, this thread may begin to wait long after the other one: then
  // it waits for less than the pause, or not at all.
  constexpr uint32_t kMostWaits = 1000;
  uint32_t i = 0;
  for (; i < kMostWaits && (i < 4 || next.expected_us(&some) < 1000.0); ++i) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      n.fetch_add(1, std::memory_order_release);
      n.notify_one();
    });
    next.wait(n, i, &some);
    EXPECT_EQ(n.load(), i + 1);
    later.join();
  }
  EXPECT_GE(next.expected_us(&some), 1000.0);
  EXPECT_LT(next.expected_us(&other), 0.0);
  // Returns at once, because the task has ended already: nobody was waiting for it.
  EXPECT_FALSE(next.wait(n, 0, &some));
}

// Submits tasks some time after a wait for them has begun.
class LateTasks {
 public:
  void wait_for_one(int after_ms) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      n_.fetch_add(1, std::memory_order_release);
      n_.notify_one();
    });
    next_.wait(n_, n_seen_++, &last_);
    later.join();
  }
  double expected_us() const { return next_.expected_us(&last_); }

 private:
  NextTask next_;
  std::atomic<uint32_t> n_{0};
  uint32_t n_seen_ = 0;
  const int last_ = 0;
};

TEST(NextTask, H8AWaitThatWasExpectedTooLongShrinksWithinAFewTasks) {
  constexpr double kShort = 5e3;
  LateTasks tasks;
  // On a busy machine the wait may take so long that nothing is learned from it.
  for (int i = 0; i < 20 && tasks.expected_us() < kShort; ++i) tasks.wait_for_one(60);
  ASSERT_GE(tasks.expected_us(), kShort);
  // Five tasks would do where no thread comes late.
  for (int i = 0; i < 20 && tasks.expected_us() >= kShort; ++i) tasks.wait_for_one(1);
  EXPECT_LT(tasks.expected_us(), kShort);
}

TEST(NextTask, H8AFirstWaitMayBeAPause) {
  constexpr double kAwake = 300.0;
  LateTasks tasks;
  for (int i = 0; i < 20 && tasks.expected_us() < 0.0; ++i) tasks.wait_for_one(80);
  ASSERT_GE(tasks.expected_us(), 0.0);
  EXPECT_LE(tasks.expected_us(), kAwake);
}

TEST(NextTask, H8APauseIsNoWorkThatHasGrown) {
  LateTasks tasks;
  for (int i = 0; i < 20 && (i < 3 || tasks.expected_us() < 0.0); ++i) tasks.wait_for_one(1);
  const double before_us = tasks.expected_us();
  ASSERT_GE(before_us, 0.0);
  tasks.wait_for_one(80);
  constexpr double kAwake = 300.0;
  EXPECT_LE(tasks.expected_us(), 2.0 * std::max(before_us, kAwake));
}

}  // namespace
}  // namespace troika::lanes
