#include "base/threads/turn_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace troika {
namespace {

TEST(TurnMutex, OneAtATimeHoldsIt) {
  constexpr int kThreads = 4, kTimes = 2000;
  TurnMutex mutex;
  int n = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kTimes; ++k) {
        const std::lock_guard<TurnMutex> lock(mutex);
        ++n;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n, kThreads * kTimes);
}

// Whoever gives it back and asks for it again gets it behind those who waited meanwhile.
TEST(TurnMutex, WhoWaitsIsNext) {
  TurnMutex mutex;
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> had_it = false;
    mutex.lock();
    std::thread other([&] {
      const std::lock_guard<TurnMutex> lock(mutex);
      had_it = true;
    });
    while (!mutex.is_awaited()) std::this_thread::yield();
    mutex.unlock();
    mutex.lock();
    EXPECT_TRUE(had_it);
    mutex.unlock();
    other.join();
  }
}

}  // namespace
}  // namespace troika
