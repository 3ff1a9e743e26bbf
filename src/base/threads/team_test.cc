#include "base/threads/team.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/support/address_limit.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(Team, EveryWorkerRunsOnceInEveryRound) {
  for (int n_threads : {1, 2, 5}) {
    Team team(n_threads);
    std::vector<int> counts(static_cast<size_t>(n_threads), 0);
    for (int round = 0; round < 300; ++round) {
      team.run([&](int worker) { ++counts[static_cast<size_t>(worker)]; });
    }
    for (int count : counts) EXPECT_EQ(count, 300);
  }
}

TEST(Team, BarrierSeparatesPhases) {
  Team team(3);
  std::vector<int> values(3, 0);
  bool all_seen = true;
  for (int round = 1; round <= 200; ++round) {
    std::vector<char> seen(3, 0);
    team.run([&](int worker) {
      values[static_cast<size_t>(worker)] = round;
      team.barrier().wait();
      bool ok = true;
      for (int value : values) ok = ok && value == round;
      seen[static_cast<size_t>(worker)] = ok;
      team.barrier().wait();
    });
    for (char ok : seen) all_seen = all_seen && ok;
  }
  EXPECT_TRUE(all_seen);
}

// A body that runs out of memory must not end the program, nor leave others behind in its frame.
TEST(Team, WhatABodyThrowsReachesTheCaller) {
  for (int n_threads : {1, 3}) {
    Team team(n_threads);
    for (int thrower = 0; thrower < n_threads; ++thrower) {
      std::vector<char> has_ended(static_cast<size_t>(n_threads), 0);
      const auto body = [&](int worker) {
        if (worker == thrower) throw std::length_error("too long");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        has_ended[static_cast<size_t>(worker)] = 1;
      };
      EXPECT_THROW(team.run(body), std::length_error);
      EXPECT_EQ(std::count(has_ended.begin(), has_ended.end(), 1), n_threads - 1);
    }
    EXPECT_THROW(team.run([](int) { throw std::length_error("all"); }), std::length_error);
    std::atomic<int> n_runs = 0;
    team.run([&](int) { ++n_runs; });
    EXPECT_EQ(n_runs, n_threads);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers want more addresses than the limit of this test leaves.
TEST(Team, ThreadsThatCannotStartAreASentence) {
  bool is_held = false;
  const std::string message = test::message_of<Error>([&] {
    const test::AddressLimit limit(uint64_t{512} << 20);
    is_held = limit.is_held();
    if (is_held) const Team team(2000);
  });
  if (!is_held) GTEST_SKIP() << "an emulator holds no program to a limit of addresses";
  EXPECT_NE(message.find("of 2000 threads"), std::string::npos) << message;
  EXPECT_NE(message.find("‹threads›"), std::string::npos) << message;
  EXPECT_EQ(message.find("only 1 of"), std::string::npos) << message;
}
#endif

// Each active worker, and no other, does its part once, however many are active.
TEST(Team, ActiveWorkersAreTheFirstOnes) {
  Team team(3);
  bool as_said = true;
  for (int round = 0; round < 200; ++round) {
    std::vector<char> ran(3, 0);
    int n_active = 0;
    const auto body = [&](int worker) {
      ran[static_cast<size_t>(worker)] = 1;
      if (worker == 0) n_active = team.n_active();
      team.barrier().wait();
      team.barrier().wait();
    };
    if (round % 3 == 0) {
      team.run(body);
      as_said = as_said && n_active == 3;
    } else {
      team.run_where_free(body);
    }
    for (int worker = 0; worker < 3; ++worker) {
      as_said = as_said && ran[static_cast<size_t>(worker)] == (worker < n_active);
    }
  }
  EXPECT_TRUE(as_said);
}

// Runs of 3 ms in which the first worker waits for a disk, and the other one for the first.
int n_active_behind(Team& team, int n_runs, const WaitTimes& times) {
  WaitTimes waited;
  int n_active = 2;
  for (int i = 0; i < n_runs && n_active == 2; ++i) {
    const auto body = [&](int worker) {
      if (worker == 0) n_active = team.n_active();
      if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      team.barrier().wait();
      if (worker == 0) waited.all_us += times.all_us;
      if (worker == 0) waited.some_us += times.some_us;
    };
    team.run_where_free(body, [&] { return waited; });
  }
  return n_active;
}

TEST(Team, WhoWaitsForADiskIsNotCrowdedOut) {
  Team crowded(2), waiting(2), both_waited(2);
  EXPECT_EQ(n_active_behind(crowded, 1000, {}), 1);
  // A machine that is crowded too may keep workers for longer than the disk does.
  EXPECT_EQ(n_active_behind(waiting, 20, {1e6, 1e6}), 2);
  // While both waited, none slept because of the other.
  EXPECT_EQ(n_active_behind(both_waited, 1000, {2e6, 1e6}), 1);
}

// Counts how often a thread has gone to sleep until now.
int64_t n_sleeps(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/status", thread));
  const std::string_view name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size()));
  }
  return -1;
}

TEST(Team, WhoIsCrowdedOutSleepsOn) {
  constexpr int kWanted = 100, kMostRuns = 3000;
  Team team(3);
  pid_t last = 0;
  team.run([&](int worker) {
    if (worker == 2) last = gettid();
  });
  if (n_sleeps(last) < 0) GTEST_SKIP() << "the system does not count how often threads sleep";
  // In each run somebody waits for long, so that the others are taken for crowded out, but for some
  // runs in which they are tried again.
  const int64_t before = n_sleeps(last);
  int n_worked = 0, n_with_others = 0;
  for (int i = 0; n_with_others < kWanted && i < kMostRuns; ++i) {
    team.run_where_free([&](int worker) {
      if (worker == 2) ++n_worked;
      if (worker == 0 && team.n_active() == 2) ++n_with_others;
      if (worker == 0 && team.n_active() > 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
      if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (team.n_active() > 2) team.barrier().wait();
    });
  }
  if (n_with_others < kWanted) GTEST_SKIP() << "the machine is too busy for two workers";
  EXPECT_LT(n_sleeps(last) - before, n_with_others / 2 + 4 * n_worked);
}

TEST(WaitClock, CountsAllAndTheTimeInWhichSomebodyWaits) {
  WaitClock clock;
  clock.begin(100);
  clock.begin(110);
  clock.end(130);
  clock.end(135);
  clock.begin(200);
  clock.end(201);
  EXPECT_EQ(clock.times().all_us, 30 + 25 + 1);
  EXPECT_EQ(clock.times().some_us, 36);
  EXPECT_EQ(clock.times().others_us({}, 4), 4 * 36 - 56);
  EXPECT_EQ(clock.times().others_us(clock.times(), 4), 0);
}

TEST(Team, PartsCoverEverythingOnce) {
  for (int64_t n_items : {0, 1, 7, 16, 100}) {
    for (int n_workers : {1, 2, 3, 7}) {
      for (int64_t granularity : {1, 4, 16}) {
        int64_t next = 0;
        for (int worker = 0; worker < n_workers; ++worker) {
          const Share share = share_of(n_items, worker, n_workers, granularity);
          EXPECT_EQ(share.begin, next);
          EXPECT_LE(share.begin, share.end);
          next = share.end;
        }
        EXPECT_EQ(next, n_items);
      }
    }
  }
}

}  // namespace
}  // namespace troika
