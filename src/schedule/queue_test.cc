// Runs random graphs on lanes that are queues with threads of their own, and checks that running a
// pass allocates nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "schedule/out_of_order.h"
#include "schedule/runner.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/queue_lane.h"

namespace troika::schedule {
namespace {

using lanes::Status;
using test::AllocationCounter;
using test::QueueLane;

class NumberedExecutable : public lanes::Executable {
 public:
  explicit NumberedExecutable(int id) : Executable(1), id(id) {}
  int id;
};

// A lane that works on the calling thread, as one that is alone on its cores does.
class DirectLane : public test::TestLane {
 public:
  explicit DirectLane(QueueLane::Body body) : TestLane("direct"), body_(std::move(body)) {}
  void submit(const lanes::Executable& executable, const lanes::Run& run,
              lanes::Completion& completion) override {
    completion.finished(body_(executable, run));
  }

 private:
  QueueLane::Body body_;
};

class TestMachine : public lanes::Machine {
 public:
  void add(std::unique_ptr<lanes::Lane> lane) {
    lanes_.push_back(lane.get());
    owned_.push_back(std::move(lane));
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override { latch.wait(); }

 private:
  RealClock clock_;
  std::vector<std::unique_ptr<lanes::Lane>> owned_;
  std::vector<lanes::Lane*> lanes_;
};

uint64_t drawn(uint64_t seed, uint64_t counter, uint64_t limit) {
  return random_bits(seed, counter) % limit;
}

// A random graph. Its tasks check that all tasks they wait for have ended.
struct RandomGraph {
  RandomGraph(int n_nodes, int n_lanes, uint64_t seed) : seed(seed) {
    uint64_t counter = 0;
    const auto draw = [&](int limit) {
      return static_cast<int>(drawn(seed, counter++, static_cast<uint64_t>(limit)));
    };
    for (int i = 0; i < n_nodes; ++i) {
      executables.push_back(std::make_unique<NumberedExecutable>(i));
      Node node;
      node.lane = draw(n_lanes);
      node.executable = executables.back().get();
      node.name = "random";
      node.operations = 1e6 * (1 + draw(30));
      node.time = &times[draw(4)];
      // Tasks mostly wait for near ones, so that queues can take tasks behind those that they wait
      // for.
      for (int w = i == 0 ? 0 : draw(4); w > 0; --w) {
        const int other = i - 1 - draw(std::min(i, draw(4) == 0 ? 40 : 4));
        if (std::count(node.waits_for.begin(), node.waits_for.end(), other) == 0) {
          node.waits_for.push_back(other);
        }
      }
      nodes.push_back(std::move(node));
    }
    pass = Pass(nodes);
    has_ended = std::make_unique<std::atomic<int>[]>(nodes.size());
  }

  void forget() {
    for (size_t i = 0; i < nodes.size(); ++i) has_ended[i] = 0;
    n_too_early = n_ran = 0;
    has_failed = false;
  }

  Status run(const lanes::Executable& executable) {
    const int id = static_cast<const NumberedExecutable&>(executable).id;
    const auto i = static_cast<size_t>(id);
    ++n_ran;
    // A task may run too early if one before it in its queue has failed.
    for (const int other : nodes[i].waits_for) {
      const auto before = static_cast<size_t>(other);
      const bool may_miss = has_failed && nodes[before].lane == nodes[i].lane;
      if (has_ended[before] != 1 && !may_miss) ++n_too_early;
    }
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(drawn(seed + 1, i, 4) * drawn(seed + 2, i, 8));
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (id == failing) {
      has_failed = true;
      return Status::kFailed;
    }
    ++has_ended[i];
    return Status::kDone;
  }

  uint64_t seed;
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<NumberedExecutable>> executables;
  TaskTime times[4];
  Pass pass;
  int failing = -1;
  std::unique_ptr<std::atomic<int>[]> has_ended;  // counts for each node how often it ended
  std::atomic<int> n_too_early = 0, n_ran = 0;
  std::atomic<bool> has_failed = false;
};

// A machine of up to 4 lanes with queues of 1 to 8 tasks. Now and then a lane works on the calling
// thread.
struct RandomMachine : TestMachine {
  RandomMachine(RandomGraph& graph, int n_lanes, uint64_t seed) {
    const auto body = [&graph](const lanes::Executable& task, const lanes::Run&) {
      return graph.run(task);
    };
    for (int i = 0; i < n_lanes; ++i) {
      const auto number = static_cast<uint64_t>(i);
      if (drawn(seed, 3 * number, 8) == 0) {
        add(std::make_unique<DirectLane>(body));
        continue;
      }
      const auto depth = static_cast<int>(1 + drawn(seed, 3 * number + 1, 8));
      auto lane = std::make_unique<QueueLane>("queue " + std::to_string(i), depth,
                                              drawn(seed, 3 * number + 2, 2) == 0, body);
      queues.push_back(lane.get());
      add(std::move(lane));
    }
  }
  bool is_idle() const {
    return std::all_of(queues.begin(), queues.end(),
                       [](const QueueLane* queue) { return queue->is_idle(); });
  }
  std::vector<QueueLane*> queues;
};

struct NewestReady : Policy {
  int choose(const Situation& at) override { return at.ready.back(); }
};

TEST(Queue, EveryNodeRunsOnceAfterWhatItWaitsFor) {
  InOrder in_order;
  NewestReady last_ready;
  OutOfOrder out_of_order;
  size_t deepest = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto n_lanes = static_cast<int>(1 + seed % 4);
    RandomGraph graph(40, n_lanes, seed);
    RandomMachine machine(graph, n_lanes, seed);
    Runner runner(machine);
    for (Policy* policy : {static_cast<Policy*>(&in_order), static_cast<Policy*>(&last_ready),
                           static_cast<Policy*>(&out_of_order)}) {
      graph.forget();
      runner.run(graph.pass, lanes::Run(), {policy});
      EXPECT_EQ(graph.n_too_early, 0) << "seed " << seed;
      for (size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(graph.has_ended[i], 1) << i;
      EXPECT_TRUE(machine.is_idle());
    }
    for (const QueueLane* queue : machine.queues) {
      deepest = std::max(deepest, queue->most_unfinished());
    }
  }
  EXPECT_GT(deepest, 1u);
}

TEST(Queue, AFailureEndsThePassWhenAllThatWasSubmittedHasEnded) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto n_lanes = static_cast<int>(1 + seed % 4);
    RandomGraph graph(40, n_lanes, seed);
    RandomMachine machine(graph, n_lanes, seed);
    Runner runner(machine);
    graph.forget();
    graph.failing = static_cast<int>(drawn(seed, 99, 40));
    EXPECT_THROW(runner.run(graph.pass, lanes::Run()), Error);
    EXPECT_TRUE(machine.is_idle());
    EXPECT_EQ(graph.n_too_early, 0) << "seed " << seed;
    // The runner and the lanes can be used again.
    graph.forget();
    graph.failing = -1;
    runner.run(graph.pass, lanes::Run());
    for (size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(graph.has_ended[i], 1) << i;
  }
}

// A task that runs in a queue behind a failed one makes no task of another lane ready.
TEST(Queue, WhatEndsBehindAFailedTaskDoesNotCount) {
  for (const bool drops_behind : {false, true}) {
    std::vector<std::unique_ptr<NumberedExecutable>> executables;
    std::vector<Node> nodes(4);
    for (size_t i = 0; i < nodes.size(); ++i) {
      executables.push_back(std::make_unique<NumberedExecutable>(static_cast<int>(i)));
      nodes[i].executable = executables.back().get();
      nodes[i].name = "task";
      if (i > 0) nodes[i].waits_for = {static_cast<int>(i) - 1};
    }
    nodes[3].lane = 1;
    std::atomic<int> n_ran = 0, n_on_other = 0;
    TestMachine machine;
    const QueueLane* lane = nullptr;
    auto queue = std::make_unique<QueueLane>(
        "queue", 4, drops_behind, [&](const lanes::Executable& task, const lanes::Run&) {
          ++n_ran;
          if (static_cast<const NumberedExecutable&>(task).id != 0) return Status::kDone;
          // The task waits until two are behind it.
          while (lane->most_unfinished() < 3) std::this_thread::yield();
          return Status::kFailed;
        });
    lane = queue.get();
    machine.add(std::move(queue));
    machine.add(
        std::make_unique<DirectLane>([&](const lanes::Executable&, const lanes::Run&) -> Status {
          ++n_on_other;
          return Status::kDone;
        }));
    const Pass pass(nodes);
    try {
      Runner(machine).run(pass, lanes::Run());
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "'task' of block -1 failed on lane 'queue'.");
    }
    EXPECT_EQ(n_on_other, 0);
    if (drops_behind) {
      EXPECT_EQ(n_ran, 1);
    }
  }
}

// The passes run on one lane, on two with threads, on a queue, and on all of them.
TEST(Runner, RunningAPassAllocatesNothing) {
  if (!AllocationCounter::is_on()) GTEST_SKIP() << "a sanitizer allocates itself";
  const auto body = [](const lanes::Executable&, const lanes::Run&) { return Status::kDone; };
  TestMachine machine;
  machine.add(std::make_unique<DirectLane>(body));
  machine.add(std::make_unique<QueueLane>("first", 1, false, body));
  machine.add(std::make_unique<QueueLane>("second", 1, false, body));
  machine.add(std::make_unique<QueueLane>("queue", 4, false, body));
  const lanes::Run run;
  InOrder in_order;
  OutOfOrder out_of_order;
  const std::vector<std::vector<int>> choices = {{0}, {1}, {1, 2}, {3}, {1, 3}, {0, 1, 2, 3}};
  std::deque<RandomGraph> graphs;
  for (const std::vector<int>& lanes : choices) {
    RandomGraph& graph = graphs.emplace_back(16, static_cast<int>(lanes.size()), 17);
    for (Node& node : graph.nodes) node.lane = lanes[static_cast<size_t>(node.lane)];
    graph.pass = Pass(graph.nodes);
  }
  SchedulerStatistics statistics;
  statistics.busy_us.resize(machine.lanes().size());
  Runner runner(machine);
  runner.reserve(16);
  const AllocationCounter counter;
  for (int i = 0; i < 100; ++i) {
    Policy& policy = i % 2 == 0 ? static_cast<Policy&>(in_order) : out_of_order;
    for (const RandomGraph& graph : graphs) runner.run(graph.pass, run, {&policy, &statistics});
  }
  EXPECT_EQ(counter.n_allocations(), 0);
  // The counter does count.
  runner.reserve(100);
  EXPECT_GT(counter.n_allocations(), 0);
}

}  // namespace
}  // namespace troika::schedule
