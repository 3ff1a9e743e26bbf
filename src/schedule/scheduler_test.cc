#include "schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace troika::schedule {
namespace {

// Lanes for tests may not be those of lanes/: this room sees lane.h alone.
class CountingExecutable : public lanes::Executable {
 public:
  explicit CountingExecutable(int id) : Executable(1), id(id) {}
  int id;
};

// Holds every task until the test's machine lets it end, in an order that the seed decides.
class HeldMachine : public lanes::Machine {
 public:
  explicit HeldMachine(int n_lanes, uint64_t seed) : seed_(seed) {
    for (int i = 0; i < n_lanes; ++i) {
      owned_.push_back(std::make_unique<HeldLane>(this, i));
      lanes_.push_back(owned_.back().get());
    }
  }

  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      ASSERT_FALSE(held_.empty()) << "nothing runs and the pass has not ended";
      const size_t which = random_bits(seed_, n_ended_++) % held_.size();
      const Held task = held_[which];
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
      lane_busy_[static_cast<size_t>(task.lane)] = false;
      task.completion->finished(task.id == failing ? lanes::Status::kFailed : lanes::Status::kDone);
    }
  }

  int failing = -1;
  std::vector<int> started() const { return started_; }

 private:
  class HeldLane : public lanes::Lane {
   public:
    HeldLane(HeldMachine* machine, int index) : machine_(machine), index_(index) {
      info_.name = "held " + std::to_string(index);
    }
    const lanes::LaneInfo& info() const override { return info_; }
    std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, int, const weights::Store&,
                                             const lanes::Buffers&) override {
      return nullptr;
    }
    void submit(const lanes::Executable& executable, const lanes::Run&,
                lanes::Completion& completion) override {
      machine_->hold(index_, static_cast<const CountingExecutable&>(executable).id, &completion);
    }

   private:
    HeldMachine* machine_;
    int index_;
    lanes::LaneInfo info_;
  };

 public:
  int most_at_once = 0;

 private:
  void hold(int lane, int id, lanes::Completion* completion) {
    if (lane_busy_.size() <= static_cast<size_t>(lane)) lane_busy_.resize(lanes_.size(), false);
    EXPECT_FALSE(lane_busy_[static_cast<size_t>(lane)]) << "two tasks at once on lane " << lane;
    lane_busy_[static_cast<size_t>(lane)] = true;
    started_.push_back(id);
    held_.push_back({lane, id, completion});
    most_at_once = std::max(most_at_once, static_cast<int>(held_.size()));
  }

  struct Held {
    int lane;
    int id;
    lanes::Completion* completion;
  };
  uint64_t seed_;
  uint64_t n_ended_ = 0;
  RealClock clock_;
  std::vector<std::unique_ptr<HeldLane>> owned_;
  std::vector<lanes::Lane*> lanes_;
  std::vector<char> lane_busy_;
  std::vector<Held> held_;
  std::vector<int> started_;
};

struct RandomPass {
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
      node.run = &run;
      node.name = "random";
      const int n_waits = i == 0 ? 0 : draw(4);
      for (int w = 0; w < n_waits; ++w) {
        const int other = draw(i);
        if (std::find(node.waits_for.begin(), node.waits_for.end(), other) ==
            node.waits_for.end()) {
          node.waits_for.push_back(other);
        }
      }
      pass.nodes.push_back(std::move(node));
    }
  }
};

// Takes whatever is ready: the most freedom a policy can take.
class LastReady : public Policy {
 public:
  int choose(const Situation& situation) override { return situation.ready.back(); }
};

// Checks starts against ends through a trace kept by the policy's own view.
class Checking : public Policy {
 public:
  explicit Checking(Policy& inner) : inner_(inner) {}
  int choose(const Situation& at) override {
    for (size_t i = 1; i < at.ready.size(); ++i) EXPECT_LT(at.ready[i - 1], at.ready[i]);
    for (const int node : at.ready) EXPECT_EQ(at.n_missing[static_cast<size_t>(node)], 0);
    const int chosen = inner_.choose(at);
    if (chosen >= 0) n_chosen += 1;
    return chosen;
  }
  int n_chosen = 0;

 private:
  Policy& inner_;
};

TEST(Scheduler, EveryNodeRunsOnceAfterWhatItWaitsFor) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomPass random(80, 3, seed);
    InOrder in_order;
    LastReady last_ready;
    for (Policy* policy : {static_cast<Policy*>(&in_order), static_cast<Policy*>(&last_ready)}) {
      HeldMachine machine(3, seed + 1000);
      Checking checking(*policy);
      Trace trace({"a", "b", "c"});
      Scheduler scheduler(machine, checking, &trace);
      scheduler.run(random.pass);
      EXPECT_EQ(checking.n_chosen, 80);
      std::vector<int> started = machine.started();
      std::vector<size_t> place(started.size());
      for (size_t i = 0; i < started.size(); ++i) place[static_cast<size_t>(started[i])] = i;
      for (size_t i = 0; i < random.pass.nodes.size(); ++i) {
        for (const int other : random.pass.nodes[i].waits_for) {
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

TEST(Scheduler, InOrderKeepsTheOrderOfEachLane) {
  RandomPass random(100, 3, 7);
  HeldMachine machine(3, 8);
  InOrder policy;
  Scheduler scheduler(machine, policy);
  scheduler.run(random.pass);
  std::vector<int> last(3, -1);
  for (const int id : machine.started()) {
    const auto lane = static_cast<size_t>(random.pass.nodes[static_cast<size_t>(id)].lane);
    EXPECT_GT(id, last[lane]);
    last[lane] = id;
  }
}

TEST(Scheduler, LanesWorkAtTheSameTime) {
  RandomPass random(100, 3, 9);
  HeldMachine machine(3, 10);
  LastReady policy;
  Scheduler scheduler(machine, policy);
  scheduler.run(random.pass);
  EXPECT_EQ(machine.most_at_once, 3);
}

TEST(Scheduler, AFailureEndsThePassWithASentence) {
  RandomPass random(50, 2, 11);
  HeldMachine machine(2, 12);
  machine.failing = 20;
  InOrder policy;
  Scheduler scheduler(machine, policy);
  try {
    scheduler.run(random.pass);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("failed on lane 'held"), std::string::npos);
  }
  // The scheduler is usable afterwards.
  machine.failing = -1;
  scheduler.run(random.pass);
}

TEST(Scheduler, AnEmptyPassEnds) {
  HeldMachine machine(1, 1);
  InOrder policy;
  Scheduler(machine, policy).run(Pass{});
}

}  // namespace
}  // namespace troika::schedule
