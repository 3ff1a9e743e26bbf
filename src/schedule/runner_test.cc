#include "schedule/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "schedule/graphs.h"
#include "schedule/ordered_heads.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_lane.h"

namespace troika::schedule {
namespace {

// The tests have lanes of their own, because this room may include only lane.h of lanes/.
class CountingExecutable : public lanes::Executable {
 public:
  explicit CountingExecutable(int id) : Executable(1), id(id) {}
  int id;
};

// A machine that holds every task until it ends the first task of a lane that the seed chooses.
class HeldMachine : public lanes::Machine {
 public:
  HeldMachine(int n_lanes, uint64_t seed, int depth = 1)
      : seed_(seed), held_(static_cast<size_t>(n_lanes)) {
    for (int i = 0; i < n_lanes; ++i) {
      owned_.push_back(std::make_unique<HeldLane>(this, i, depth));
      lanes_.push_back(owned_.back().get());
    }
  }

  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      std::vector<std::deque<Held>*> busy;
      for (std::deque<Held>& lane : held_) {
        if (!lane.empty()) busy.push_back(&lane);
      }
      ASSERT_FALSE(busy.empty()) << "nothing runs and the pass has not ended";
      std::deque<Held>& lane = *busy[random_bits(seed_, n_ended_++) % busy.size()];
      const Held task = lane.front();
      lane.pop_front();
      ended_.push_back(task.id);
      task.completion->finished(task.id == failing ? lanes::Status::kFailed : lanes::Status::kDone);
    }
  }

  int failing = -1;
  const std::vector<int>& started() const { return started_; }
  const std::vector<int>& ended() const { return ended_; }
  int depth() const { return lanes_.front()->info().queue_depth; }

 private:
  class HeldLane : public test::TestLane {
   public:
    HeldLane(HeldMachine* machine, int index, int depth)
        : TestLane("held " + std::to_string(index), depth), machine_(machine), index_(index) {}
    void submit(const lanes::Executable& executable, const lanes::Run&,
                lanes::Completion& completion) override {
      machine_->hold(index_, static_cast<const CountingExecutable&>(executable).id, &completion);
    }

   private:
    HeldMachine* machine_;
    int index_;
  };

 public:
  int most_lanes_at_once = 0;
  size_t most_on_a_lane = 0;

 private:
  void hold(int lane, int id, lanes::Completion* completion) {
    std::deque<Held>& held = held_[static_cast<size_t>(lane)];
    const int depth = lanes_[static_cast<size_t>(lane)]->info().queue_depth;
    EXPECT_LT(held.size(), static_cast<size_t>(depth)) << "too many at once on lane " << lane;
    started_.push_back(id);
    held.push_back({id, completion});
    most_on_a_lane = std::max(most_on_a_lane, held.size());
    const auto n_busy = std::count_if(held_.begin(), held_.end(),
                                      [](const std::deque<Held>& of) { return !of.empty(); });
    most_lanes_at_once = std::max(most_lanes_at_once, static_cast<int>(n_busy));
  }

  struct Held {
    int id;
    lanes::Completion* completion;
  };
  uint64_t seed_;
  uint64_t n_ended_ = 0;
  RealClock clock_;
  std::vector<std::unique_ptr<HeldLane>> owned_;
  std::vector<lanes::Lane*> lanes_;
  std::vector<std::deque<Held>> held_;  // has the tasks of each lane in the order of submission
  std::vector<int> started_, ended_;
};

struct RandomPass {
  std::vector<Node> nodes;
  Pass pass;
  std::vector<std::unique_ptr<CountingExecutable>> executables;
  lanes::Run run;

  RandomPass(int n_nodes, int n_lanes, uint64_t seed) {
    uint64_t counter = 0;
    const auto draw = [&](int limit) {
      return static_cast<int>(random_bits(seed, counter++) % static_cast<uint64_t>(limit));
    };
    for (int i = 0; i < n_nodes; ++i) {
      executables.push_back(std::make_unique<CountingExecutable>(i));
      Node node;
      node.lane = draw(n_lanes);
      node.executable = executables.back().get();
      node.name = "random";
      const int n_waits = i == 0 ? 0 : draw(4);
      for (int w = 0; w < n_waits; ++w) {
        const int other = draw(i);
        if (std::find(node.waits_for.begin(), node.waits_for.end(), other) ==
            node.waits_for.end()) {
          node.waits_for.push_back(other);
        }
      }
      nodes.push_back(std::move(node));
    }
    pass = Pass(nodes);
  }
};

// A policy that takes any task that is ready, which is the most freedom a policy has.
class LastReady : public Policy {
 public:
  int choose(const Situation& situation) override { return situation.ready.back(); }
};

// A policy that asks another one, and checks that all ready tasks wait for nothing.
class Checking : public Policy {
 public:
  explicit Checking(Policy& inner) : inner_(inner) {}
  int choose(const Situation& at) override {
    for (size_t i = 1; i < at.ready.size(); ++i) EXPECT_LT(at.ready[i - 1], at.ready[i]);
    for (const int node : at.ready) {
      EXPECT_EQ(at.n_missing[static_cast<size_t>(node)], 0);
      EXPECT_GE(node, at.next);
    }
    const int chosen = inner_.choose(at);
    if (chosen >= 0) n_chosen += 1;
    return chosen;
  }
  int n_chosen = 0;

 private:
  Policy& inner_;
};

TEST(Runner, EveryNodeRunsOnceAfterWhatItWaitsFor) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomPass random(80, 3, seed);
    InOrder in_order;
    LastReady last_ready;
    for (Policy* policy : {static_cast<Policy*>(&in_order), static_cast<Policy*>(&last_ready)}) {
      HeldMachine machine(3, seed + 1000);
      Checking checking(*policy);
      Trace trace({"a", "b", "c"});
      Runner runner(machine);
      runner.run(random.pass, random.run, {&checking, nullptr, &trace});
      EXPECT_EQ(checking.n_chosen, 80);
      std::vector<int> started = machine.started();
      std::vector<size_t> place(started.size());
      for (size_t i = 0; i < started.size(); ++i) place[static_cast<size_t>(started[i])] = i;
      for (size_t i = 0; i < random.nodes.size(); ++i) {
        for (const int other : random.nodes[i].waits_for) {
          EXPECT_LT(place[static_cast<size_t>(other)], place[i]);
        }
      }
      std::sort(started.begin(), started.end());
      std::vector<int> all(80);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(started, all);
      EXPECT_EQ(trace.events().size(), 80u);
    }
  }
}

TEST(Runner, InOrderKeepsTheOrderOfEachLane) {
  RandomPass random(100, 3, 7);
  HeldMachine machine(3, 8);
  Runner(machine).run(random.pass, random.run);
  EXPECT_EQ(machine.started().size(), random.nodes.size());
  std::vector<int> last(3, -1);
  for (const int id : machine.started()) {
    const auto lane = static_cast<size_t>(random.nodes[static_cast<size_t>(id)].lane);
    EXPECT_GT(id, last[lane]);
    last[lane] = id;
  }
}

TEST(Runner, LanesWorkAtTheSameTime) {
  RandomPass random(100, 3, 9);
  HeldMachine machine(3, 10);
  LastReady policy;
  Runner(machine).run(random.pass, random.run, {&policy});
  EXPECT_EQ(machine.most_lanes_at_once, 3);
}

// Tasks of a list wait only for what the list says, in steps too, and one pass may run many times.
TEST(Runner, TasksOfAListRunSideBySide) {
  std::vector<Task> tasks;
  const auto add = [&](int lane, std::vector<int> waits_for) {
    const auto id = static_cast<int>(tasks.size());
    tasks.push_back({lane, std::make_unique<CountingExecutable>(id), "task", 0, waits_for});
  };
  add(0, {});
  add(0, {0});
  add(1, {0});
  add(0, {1, 2});
  const Pass pass = pass_of(tasks);
  HeldMachine machine(2, 3);
  Runner runner(machine);
  for (int i = 0; i < 10; ++i) runner.run(pass, lanes::Run());
  EXPECT_EQ(machine.most_lanes_at_once, 2);
  EXPECT_EQ(machine.started().size(), 40u);
  // In a part of the list, the tasks before it count as ended.
  const Pass part = pass_of(std::span<const Task>(tasks).subspan(1), 1);
  EXPECT_EQ(part.node(0).waits_for, std::vector<int>());
  EXPECT_EQ(part.node(1).waits_for, std::vector<int>());
  EXPECT_EQ(part.node(2).waits_for, (std::vector{0, 1}));
}

// A pass on one lane asks no policy, however many lanes the machine has.
TEST(Runner, OneLaneIsWalkedThrough) {
  RandomPass random(40, 1, 5);
  HeldMachine machine(3, 6);
  LastReady policy;
  Checking checking(policy);
  SchedulerStatistics statistics;
  Runner(machine).run(random.pass, random.run, {&checking, &statistics});
  EXPECT_EQ(checking.n_chosen, 0);
  EXPECT_EQ(statistics.n_decisions, 0u);
  EXPECT_TRUE(std::is_sorted(machine.started().begin(), machine.started().end()));
  EXPECT_EQ(machine.started().size(), 40u);
  machine.failing = 7;
  EXPECT_THROW(Runner(machine).run(random.pass, random.run), Error);
}

TEST(Runner, AWatchIsToldOfEachBlockOnceAndOfTheEndAlways) {
  struct Watch : BlockWatch {
    void before_block(int block, plan::Phase phase, int n_tokens, const RowsBeside& rows) override {
      EXPECT_EQ(phase, plan::Phase::kPrompt);
      EXPECT_EQ(n_tokens, 9);
      told.push_back(block);
      rows.add({RowsBeside::kReads, "read", block, 0, 1.0, 2.0, true});
    }
    void after_blocks(const RowsBeside& /*rows*/) override { ++n_ends; }
    std::vector<int> told;
    int n_ends = 0;
  };
  std::vector<Task> tasks;
  for (int i = 0; i < 8; ++i) {
    const int block = i == 0 || i == 7 ? -1 : (i - 1) / 2;
    tasks.push_back({0, std::make_unique<CountingExecutable>(i), "task", block, {}});
  }
  HeldMachine machine(1, 1);
  Runner runner(machine);
  Watch watch;
  runner.set_watch(&watch);
  lanes::Run run;
  run.phase = plan::Phase::kPrompt;
  run.n_tokens = 9;
  runner.run(pass_of(tasks), run);
  EXPECT_EQ(watch.told, (std::vector{0, 1, 2}));
  EXPECT_EQ(watch.n_ends, 1);
  // What the watch records goes into the trace of that pass alone, if it has rows for it.
  Trace trace({"lane", "blocks", "reads"});
  runner.run(pass_of(tasks), run, {.trace = &trace});
  const std::vector<TraceEvent> events = trace.events();
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const TraceEvent& event) { return event.lane == 2; }),
            3);
  Trace narrow({"lane", "blocks"});
  runner.run(pass_of(tasks), run, {.trace = &narrow});
  EXPECT_EQ(narrow.events().size(), tasks.size());
  watch.told.clear();
  watch.n_ends = 1;
  machine.failing = 3;
  EXPECT_THROW(runner.run(pass_of(tasks), run), Error);
  EXPECT_EQ(watch.n_ends, 2);
}

// A pass that fails for want of memory must not end the program when its watch finds none either.
TEST(Runner, WhatAWatchThrowsAtTheEndIsLost) {
  struct Watch : BlockWatch {
    void before_block(int, plan::Phase, int, const RowsBeside&) override { ++n_begins; }
    void after_blocks(const RowsBeside& /*rows*/) override { throw std::bad_alloc(); }
    int n_begins = 0;
  };
  for (const int n_lanes : {1, 2}) {
    std::vector<Task> tasks;
    for (int i = 0; i < 4; ++i) {
      tasks.push_back({i % n_lanes, std::make_unique<CountingExecutable>(i), "task", 0, {}});
    }
    HeldMachine machine(n_lanes, 1);
    Runner runner(machine);
    Watch watch;
    runner.set_watch(&watch);
    EXPECT_NO_THROW(runner.run(pass_of(tasks), lanes::Run()));
    machine.failing = 3;
    EXPECT_THROW(runner.run(pass_of(tasks), lanes::Run()), Error);
    EXPECT_EQ(watch.n_begins, 2);
  }
}

// On several lanes a worker tells the watch. What the watch throws ends the pass as a task's
// failure does, and reaches who runs it.
TEST(Runner, WhatAWatchThrowsEndsThePassOnSeveralLanesToo) {
  struct Watch : BlockWatch {
    void before_block(int block, plan::Phase, int, const RowsBeside&) override {
      if (block == bad) throw Error("Block 2 cannot be read.");
    }
    void after_blocks(const RowsBeside& /*rows*/) override { ++n_ends; }
    int bad = 2, n_ends = 0;
  };
  for (const int depth : {1, 3}) {
    // Each block has a task on either lane, and both wait for those of the block before.
    std::vector<Task> tasks;
    for (int i = 0; i < 8; ++i) {
      std::vector<int> waits_for;
      if (i >= 2) waits_for = {i / 2 * 2 - 2, i / 2 * 2 - 1};
      tasks.push_back({i % 2, std::make_unique<CountingExecutable>(i), "task", i / 2, waits_for});
    }
    HeldMachine machine(2, 3, depth);
    Runner runner(machine);
    Watch watch;
    runner.set_watch(&watch);
    EXPECT_EQ(test::message_of<Error>([&] { runner.run(pass_of(tasks), lanes::Run()); }),
              "Block 2 cannot be read.");
    EXPECT_EQ(watch.n_ends, 1);
    EXPECT_EQ(machine.started().size(), 4u);  // none of block 2 or behind it
    watch.bad = -1;
    runner.run(pass_of(tasks), lanes::Run());  // the runner is as good as before
    EXPECT_EQ(machine.started().size(), 12u);
    EXPECT_EQ(watch.n_ends, 2);
  }
}

// Between what the watch throws and the failure that follows from it, a task may end on which
// others of the block wait.
TEST(Runner, NothingIsSubmittedAfterTheWatchHasThrown) {
  struct Watch : BlockWatch {
    void before_block(int, plan::Phase, int, const RowsBeside&) override {
      has_thrown = true;
      throw Error("Block 0 cannot be read.");
    }
    void after_blocks(const RowsBeside& /*rows*/) override {}
    bool has_thrown = false;
  } watch;
  struct HoldingLane : test::TestLane {
    explicit HoldingLane(const std::string& name) : TestLane(name, 1) {}
    void submit(const lanes::Executable&, const lanes::Run&, lanes::Completion& told) override {
      ++n_submitted;
      held = &told;
    }
    int n_submitted = 0;
    lanes::Completion* held = nullptr;
  };
  // The runner reads the clock behind the watch. Then the first lane's task ends.
  struct EndingClock : Clock {
    double now_us() const override {
      if (watch->has_thrown && !std::exchange(has_ended, true)) {
        first->held->finished(lanes::Status::kDone);
      }
      return 1.0;
    }
    mutable bool has_ended = false;
    Watch* watch;
    HoldingLane* first;
  };
  struct TwoLanes : lanes::Machine {
    std::span<lanes::Lane* const> lanes() const override { return all; }
    const Clock& clock() const override { return ending; }
    void wait(const lanes::Latch& latch) override {
      ASSERT_TRUE(latch.is_open()) << "a task of the block was submitted";
    }
    HoldingLane first{"first"}, second{"second"};
    std::vector<lanes::Lane*> all = {&first, &second};
    EndingClock ending;
  } machine;
  machine.ending.watch = &watch;
  machine.ending.first = &machine.first;
  std::vector<Task> tasks;
  tasks.push_back({0, std::make_unique<CountingExecutable>(0), "embed", -1, {}});
  tasks.push_back({1, std::make_unique<CountingExecutable>(1), "task", 0, {}});
  tasks.push_back({0, std::make_unique<CountingExecutable>(2), "task", 0, {0}});
  Runner runner(machine);
  runner.set_watch(&watch);
  EXPECT_EQ(test::message_of<Error>([&] { runner.run(pass_of(tasks), lanes::Run()); }),
            "Block 0 cannot be read.");
  EXPECT_EQ(machine.first.n_submitted, 1);
  EXPECT_EQ(machine.second.n_submitted, 0);
}

// Each node runs with the arguments whose number it names.
TEST(Runner, NodesAreBoundByTheRunThatTheyName) {
  struct Noting : lanes::Lane {
    const lanes::LaneInfo& info() const override { return lane_info; }
    std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, plan::Shape,
                                             const weights::Store&,
                                             const lanes::Buffers&) override {
      return nullptr;
    }
    void submit(const lanes::Executable&, const lanes::Run& run, lanes::Completion& told) override {
      n_tokens.push_back(run.n_tokens);
      told.finished(lanes::Status::kDone);
    }
    lanes::LaneInfo lane_info;
    std::vector<int> n_tokens;
  };
  struct TwoLanes : lanes::Machine {
    std::span<lanes::Lane* const> lanes() const override { return all; }
    const Clock& clock() const override { return real; }
    void wait(const lanes::Latch& latch) override { EXPECT_TRUE(latch.is_open()); }
    Noting first, second;
    std::vector<lanes::Lane*> all = {&first, &second};
    RealClock real;
  };
  const CountingExecutable executable(0);
  std::vector<Node> nodes(6);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].executable = &executable;
    nodes[i].lane = i < 3 ? 0 : 1;
    nodes[i].run = static_cast<int>(i % 3);
    if (i > 0) nodes[i].waits_for = {static_cast<int>(i) - 1};
  }
  const Pass pass(nodes);
  EXPECT_EQ(pass.n_runs(), 3u);
  std::vector<lanes::Run> runs(3);
  for (int i = 0; i < 3; ++i) runs[static_cast<size_t>(i)].n_tokens = 10 + i;
  TwoLanes machine;
  Runner(machine).run(pass, runs);
  EXPECT_EQ(machine.first.n_tokens, (std::vector{10, 11, 12}));
  EXPECT_EQ(machine.second.n_tokens, (std::vector{10, 11, 12}));
}

// A queue takes tasks together with those that they wait for, up to its depth, and keeps their
// order.
TEST(Runner, AQueueIsFilledUpToItsDepth) {
  for (const int depth : {1, 2, 3, 8}) {
    std::vector<Node> chain(20);
    std::vector<std::unique_ptr<CountingExecutable>> executables;
    for (size_t i = 0; i < chain.size(); ++i) {
      executables.push_back(std::make_unique<CountingExecutable>(static_cast<int>(i)));
      chain[i].executable = executables.back().get();
      if (i > 0) chain[i].waits_for = {static_cast<int>(i) - 1};
    }
    HeldMachine machine(1, 1, depth);
    Runner(machine).run(Pass(chain), lanes::Run());
    EXPECT_EQ(machine.most_on_a_lane, static_cast<size_t>(depth));
    EXPECT_TRUE(std::is_sorted(machine.ended().begin(), machine.ended().end()));
    EXPECT_EQ(machine.ended().size(), 20u);
  }
}

// A task that another lane makes must have ended; a place in the queue does not help.
TEST(Runner, AQueueWaitsForWhatOtherLanesMake) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomPass random(80, 3, seed);
    HeldMachine machine(3, seed, 1 + static_cast<int>(seed % 5));
    struct Starts : Policy {
      int choose(const Situation& at) override {
        for (const int node : at.ready) {
          for (const int other : at.pass.node(node).waits_for) {
            const bool is_same = at.pass.node(other).lane == at.lane && machine->depth() > 1;
            const std::vector<int>& list = is_same ? chosen : machine->ended();
            EXPECT_NE(std::find(list.begin(), list.end(), other), list.end());
          }
        }
        chosen.push_back(at.ready.back());
        return chosen.back();
      }
      const HeldMachine* machine = nullptr;
      std::vector<int> chosen;
    };
    Starts starts;
    starts.machine = &machine;
    Runner(machine).run(random.pass, random.run, {&starts});
    EXPECT_EQ(machine.ended().size(), 80u);
    std::vector<size_t> place(80);
    for (size_t i = 0; i < 80; ++i) place[static_cast<size_t>(machine.ended()[i])] = i;
    for (size_t i = 0; i < 80; ++i) {
      for (const int other : random.nodes[i].waits_for) {
        EXPECT_LT(place[static_cast<size_t>(other)], place[i]);
      }
    }
  }
}

TEST(Runner, AFailureEndsThePassWithASentence) {
  RandomPass random(50, 2, 11);
  HeldMachine machine(2, 12);
  machine.failing = 20;
  Runner runner(machine);
  try {
    runner.run(random.pass, random.run);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("failed on lane 'held"), std::string::npos);
  }
  // The runner can be used again.
  machine.failing = -1;
  runner.run(random.pass, random.run);
}

// The parts of heads wait for each other over lanes. Whichever fails, the pass ends with a
// sentence, and the policy that orders heads can be used again.
TEST(Runner, S6AFailingPartOfAHeadEndsThePass) {
  using lanes::Role;
  std::vector<std::unique_ptr<CountingExecutable>> executables;
  std::vector<Node> nodes;
  const auto add = [&](Role role, int lane, std::vector<int> waits_for) {
    executables.push_back(std::make_unique<CountingExecutable>(static_cast<int>(nodes.size())));
    Node node;
    node.lane = lane;
    node.executable = executables.back().get();
    node.name = "part";
    node.block = 0;
    node.role = role;
    node.waits_for = std::move(waits_for);
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  };
  const int store = add(Role::kStore, 0, {});
  for (int launch = 0; launch < 3; ++launch) {
    const int estimate = add(Role::kEstimate, 1, {store});
    for (int head = 0; head < 2; ++head) {
      add(Role::kExact, 0, {add(Role::kSelect, 2, {estimate})});
    }
  }
  const Pass pass(nodes);
  const auto n = static_cast<int>(nodes.size());
  for (int failing = 0; failing < n; ++failing) {
    HeldMachine machine(3, static_cast<uint64_t>(failing));
    machine.failing = failing;
    Runner runner(machine);
    OrderedHeads policy(std::make_unique<InOrder>());
    EXPECT_THROW(runner.run(pass, lanes::Run(), {&policy}), Error) << failing;
    for (const int ended : machine.ended()) {
      const std::vector<int>& waits_for = nodes[static_cast<size_t>(ended)].waits_for;
      EXPECT_EQ(std::count(waits_for.begin(), waits_for.end(), failing), 0) << failing;
    }
    machine.failing = -1;
    const size_t n_before = machine.ended().size();
    runner.run(pass, lanes::Run(), {&policy});
    EXPECT_EQ(machine.ended().size() - n_before, nodes.size());
  }
}

TEST(Runner, AnEmptyPassEnds) {
  HeldMachine machine(1, 1);
  Runner(machine).run(Pass(), lanes::Run());
}

}  // namespace
}  // namespace troika::schedule
