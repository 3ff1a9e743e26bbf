#include "schedule/chunks.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/random.h"
#include "schedule/runner.h"
#include "schedule/task_time.h"
#include "tests/support/queue_lane.h"

namespace troika::schedule {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) { return random_bits(a, b); }

// A task that computes with hashes in place of values. It reads and writes what a real task would,
// so an order that breaks a dependency gives another result.
class HashExecutable : public lanes::Executable {
 public:
  HashExecutable(int id, int block, bool is_dynamic, std::vector<int> inputs)
      : Executable(1), id(id), block(block), is_dynamic(is_dynamic), inputs(std::move(inputs)) {}
  int id;
  int block;
  bool is_dynamic;
  std::vector<int> inputs;  // are tasks of the same chunk whose values this one reads
};

// The values that tasks work on. A chunk's number is that of its first token.
struct Values {
  std::vector<std::vector<uint64_t>> buffers;   // [set][task] holds what the task gave last
  std::map<int, std::map<int, uint64_t>> keys;  // [block][chunk]
  std::map<int, uint64_t> results;              // holds for each chunk the sum of all its tasks
  std::mutex mutex;

  void run(const HashExecutable& task, const lanes::Run& run) {
    const int chunk = run.tokens[0];
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<uint64_t>& set = buffers[static_cast<size_t>(run.buffer_set)];
    set.resize(std::max(set.size(), static_cast<size_t>(task.id) + 1), 0);
    uint64_t value = mixed(static_cast<uint64_t>(task.id), 1);
    if (task.inputs.empty()) value = mixed(value, static_cast<uint64_t>(chunk));
    for (const int input : task.inputs) value = mixed(value, set[static_cast<size_t>(input)]);
    if (task.is_dynamic) {
      keys[task.block][chunk] = value;
      for (const auto& [other, key] : keys[task.block]) {
        if (other < chunk) value = mixed(value, key);
      }
      // All chunks before must have stored their keys by now.
      value = mixed(value, keys[task.block].size());
    }
    set[static_cast<size_t>(task.id)] = value;
    results[chunk] += value;  // the sum does not depend on the order of tasks
  }
};

// A machine whose tasks take the time of a table. Its clock jumps to their ends.
class TimedMachine : public lanes::Machine {
 public:
  TimedMachine(int n_lanes, Values* values, std::vector<double> us)
      : values_(values), us_(std::move(us)) {
    for (int i = 0; i < n_lanes; ++i) {
      owned_.push_back(std::make_unique<TimedLane>(this, i));
      lanes_.push_back(owned_.back().get());
    }
    running_.resize(static_cast<size_t>(n_lanes));
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      Running* first = nullptr;
      for (Running& task : running_) {
        if (task.completion == nullptr) continue;
        if (first == nullptr || task.end_us < first->end_us) first = &task;
      }
      ASSERT_NE(first, nullptr);
      clock_.now = first->end_us;
      // The task computed when it began; its result is told at its end.
      std::exchange(first->completion, nullptr)->finished(lanes::Status::kDone);
    }
  }

 private:
  struct Running {
    double end_us = 0.0;
    lanes::Completion* completion = nullptr;
  };
  class TimedClock : public Clock {
   public:
    double now_us() const override { return now; }
    double now = 0.0;
  };
  class TimedLane : public test::TestLane {
   public:
    TimedLane(TimedMachine* machine, int index) : machine_(machine), index_(index) {}
    void submit(const lanes::Executable& executable, const lanes::Run& run,
                lanes::Completion& completion) override {
      const auto& task = static_cast<const HashExecutable&>(executable);
      machine_->values_->run(task, run);
      Running& running = machine_->running_[static_cast<size_t>(index_)];
      ASSERT_EQ(running.completion, nullptr) << "two tasks at once";
      const double us = machine_->us_[static_cast<size_t>(task.id)];
      running = {machine_->clock_.now + us, &completion};
    }

   private:
    TimedMachine* machine_;
    int index_;
  };

  Values* values_;
  std::vector<double> us_;
  TimedClock clock_;
  std::vector<std::unique_ptr<TimedLane>> owned_;
  std::vector<lanes::Lane*> lanes_;
  std::vector<Running> running_;
};

// Has a list of blocks (before, attention, behind), here and there with a task beside, and its
// chunks.
struct Prompt {
  TaskList list{{}, {}};
  std::vector<double> us;
  std::vector<cache::Token> tokens;
  std::vector<const TaskList*> chunks;
  std::vector<lanes::Run> runs;
  LearnedTimes times;

  Prompt(int n_blocks, int n_chunks, int n_lanes, int n_sets, uint64_t seed) {
    uint64_t counter = 0;
    const auto draw = [&](int limit) {
      return static_cast<int>(random_bits(seed, counter++) % static_cast<uint64_t>(limit));
    };
    int last = -1;
    for (int block = 0; block < n_blocks; ++block) {
      for (int part = 0; part < 3; ++part) {
        std::vector<int> waits_for;
        if (last >= 0) waits_for.push_back(last);
        const int main = add(draw(n_lanes), block, part == 1, waits_for, 1.0 + draw(100));
        last = main;
        if (part == 1 || draw(3) > 0) continue;
        // A task at the side, as outliers have, and a task that needs both.
        const int side = add(draw(n_lanes), block, false, waits_for, 1.0 + draw(100));
        last = add(draw(n_lanes), block, false, {main, side}, 1.0 + draw(20));
      }
    }
    for (int chunk = 0; chunk < n_chunks; ++chunk) tokens.push_back(chunk);
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
      lanes::Run run;
      run.n_tokens = 1;
      run.tokens = std::span<const cache::Token>(tokens).subspan(static_cast<size_t>(chunk), 1);
      run.buffer_set = buffer_set_of(static_cast<size_t>(chunk), n_sets);
      chunks.push_back(&list);
      runs.push_back(run);
    }
  }

  int add(int lane, int block, bool is_dynamic, std::vector<int> waits_for, double task_us) {
    const auto id = static_cast<int>(list.tasks.size());
    list.tasks.push_back({lane, std::make_unique<HashExecutable>(id, block, is_dynamic, waits_for),
                          is_dynamic ? "attention" : "static", block, std::move(waits_for),
                          is_dynamic, 1e6 * task_us,
                          times.of(is_dynamic ? "attention" : "static", lane, {})});
    us.push_back(task_us);
    return id;
  }
};

struct Outcome {
  std::map<int, uint64_t> results;
  double span_us = 0.0;
  SchedulerStatistics statistics;
};

Outcome run(Prompt& prompt, plan::Order order, int n_lanes, int n_sets) {
  Values values;
  values.buffers.resize(static_cast<size_t>(n_sets));
  TimedMachine machine(n_lanes, &values, prompt.us);
  const Pass pass = pass_of_chunks(prompt.chunks, order, n_sets);
  const std::unique_ptr<Policy> policy = make_policy(order);
  Outcome outcome;
  Runner(machine).run(pass, prompt.runs, {policy.get(), &outcome.statistics});
  outcome.results = values.results;
  outcome.span_us = machine.clock().now_us();
  return outcome;
}

constexpr plan::Order kOrders[] = {plan::Order::kInOrder, plan::Order::kLockStep,
                                   plan::Order::kOutOfOrder};

int sets_of(plan::Order order, int in_flight) {
  if (order == plan::Order::kInOrder) return 1;
  return order == plan::Order::kLockStep ? 2 : in_flight;
}

TEST(Chunks, N7EveryOrderKeepsEveryDependency) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int n_chunks = 1 + static_cast<int>(seed % 7);
    Prompt alone(3, n_chunks, 1, 1, seed);
    const Outcome expected = run(alone, plan::Order::kInOrder, 1, 1);
    ASSERT_EQ(expected.results.size(), static_cast<size_t>(n_chunks));
    for (const plan::Order order : kOrders) {
      for (const int in_flight : {1, 2, 3, 8}) {
        const int n_sets = sets_of(order, in_flight);
        Prompt prompt(3, n_chunks, 3, n_sets, seed);
        const Outcome outcome = run(prompt, order, 3, n_sets);
        EXPECT_EQ(outcome.results, expected.results)
            << plan::order_name(order) << ", " << n_chunks << " chunks, " << in_flight
            << " in flight, seed " << seed;
      }
    }
  }
}

TEST(Chunks, N7APassHasTheDependenciesOfThePaper) {
  Prompt prompt(0, 3, 2, 3, 5);
  for (int task = 0; task < 6; ++task) {
    prompt.add(task % 2, task / 3, task % 3 == 1,
               task > 0 ? std::vector{task - 1} : std::vector<int>(), 1.0);
  }
  const Pass pass = pass_of_chunks(prompt.chunks, plan::Order::kOutOfOrder, 3);
  ASSERT_EQ(pass.n_nodes(), 18u);
  for (int chunk = 0; chunk < 3; ++chunk) {
    for (int task = 0; task < 6; ++task) {
      std::vector<int> expected;
      const int node = 6 * chunk + task;
      const bool is_attention = task % 3 == 1;
      if (is_attention && chunk > 0) expected.push_back(node - 6);
      if (task > 0) expected.push_back(node - 1);
      EXPECT_EQ(pass.node(node).waits_for, expected) << node;
      EXPECT_EQ(pass.node(node).run, chunk);
    }
  }
}

TEST(Chunks, N7LockStepDoesNotLoseTheLastChunk) {
  for (const int n_chunks : {1, 2, 3, 4, 5}) {
    Prompt prompt(2, n_chunks, 2, 2, 3);
    const Pass pass = pass_of_chunks(prompt.chunks, plan::Order::kLockStep, 2);
    EXPECT_EQ(pass.n_nodes(), prompt.list.tasks.size() * static_cast<size_t>(n_chunks));
    std::set<int> runs;
    for (const Node& node : pass.nodes()) runs.insert(node.run);
    EXPECT_EQ(runs.size(), static_cast<size_t>(n_chunks));
  }
}

// The last chunk of a prompt may be so short that its list has other tasks.
TEST(Chunks, N7ALastChunkOfAnotherListKeepsEveryDependency) {
  for (const int n_chunks : {2, 3, 4, 5}) {
    std::map<int, uint64_t> expected;
    for (const plan::Order order : kOrders) {
      const int n_sets = sets_of(order, 3);
      Prompt prompt(0, n_chunks, 2, n_sets, 1);
      int last = -1;
      for (int block = 0; block < 3; ++block) {
        for (int part = 0; part < 6; ++part) {
          const std::vector<int> waits_for = last >= 0 ? std::vector{last} : std::vector<int>();
          last = prompt.add(part % 2, block, part == 5, waits_for, 10.0);
        }
      }
      // The same blocks are cut into fewer tasks, which have numbers of their own.
      TaskList brief{{}, {}};
      const int n_before = last + 1;
      for (int i = 0; i < 6; ++i) {
        const std::vector<int> waits_for = i > 0 ? std::vector{i - 1} : std::vector<int>();
        const std::vector<int> reads = i > 0 ? std::vector{n_before + i - 1} : std::vector<int>();
        brief.tasks.push_back(
            {i % 2, std::make_unique<HashExecutable>(n_before + i, i / 2, i % 2 == 1, reads),
             i % 2 == 1 ? "attention" : "static", i / 2, waits_for, i % 2 == 1, 1.0});
        prompt.us.push_back(1.0);
      }
      prompt.chunks.back() = &brief;
      const Outcome outcome = run(prompt, order, 2, n_sets);
      if (expected.empty()) expected = outcome.results;
      EXPECT_EQ(outcome.results, expected) << plan::order_name(order) << ", " << n_chunks;
    }
  }
}

// In order, the matrix lane waits whenever the other lane works. Out of order it hardly waits at
// all.
TEST(Chunks, N7OutOfOrderLeavesTheMatrixLaneIdleLeast) {
  const double kUs[] = {20.0, 16.0, 35.0};  // are the times before attention, in it and behind it
  const auto span = [&](plan::Order order, int n_sets) {
    Prompt prompt(0, 6, 2, n_sets, 0);
    int last = -1;
    for (int block = 0; block < 24; ++block) {
      for (size_t part = 0; part < 3; ++part) {
        std::vector<int> waits_for;
        if (last >= 0) waits_for.push_back(last);
        last = prompt.add(part == 1 ? 0 : 1, block, part == 1, waits_for, kUs[part]);
      }
    }
    const Outcome outcome = run(prompt, order, 2, n_sets);
    EXPECT_EQ(outcome.statistics.busy_us[1], 6 * 24 * 55.0);
    EXPECT_NEAR(outcome.statistics.span_us, outcome.span_us, 1e-6);
    return outcome.span_us;
  };
  const double matrix_us = 6 * 24 * 55.0;
  const double in_order = span(plan::Order::kInOrder, 1);
  EXPECT_NEAR(in_order, 6 * 24 * 71.0, 1e-6);
  EXPECT_LT(span(plan::Order::kLockStep, 2), in_order);
  EXPECT_LT(span(plan::Order::kOutOfOrder, 6), 1.05 * matrix_us);
}

TEST(TaskTime, N7LearnsWhatTasksOfAKindTake) {
  TaskTime time;
  EXPECT_NEAR(time.us(1.0, 30e6), 30.0, 1e-9);  // comes from the operations alone
  time.learn(1.0, 40.0);
  EXPECT_NEAR(time.us(1.0, 30e6), 40.0, 1e-9);
  for (int i = 0; i < 50; ++i) time.learn(1.0, 80.0);
  EXPECT_NEAR(time.us(1.0, 30e6), 80.0, 0.1);
  // The time of attention depends on how many positions are seen.
  const std::vector<cache::Slot> slots(100);
  const std::vector<cache::VisibleSlots> few = {{std::span(slots).first(10), {}}};
  const std::vector<cache::VisibleSlots> many = {
      {std::span(slots).first(60), std::span(slots).first(20)}};
  lanes::Run short_run, long_run;
  short_run.visible = few;
  long_run.visible = many;
  TaskTime attention;
  attention.learn(n_positions(short_run), 5.0);
  EXPECT_NEAR(attention.us(n_positions(long_run), 30e6), 40.0, 1e-9);
}

TEST(TaskTime, TasksOfAKindShareOne) {
  LearnedTimes times;
  TaskTime* const first = times.of("ffn", 0, {plan::Phase::kPrompt, 32});
  EXPECT_EQ(times.of(std::string("ffn").c_str(), 0, {plan::Phase::kPrompt, 32}), first);
  EXPECT_NE(times.of("ffn", 1, {plan::Phase::kPrompt, 32}), first);
  EXPECT_NE(times.of("ffn", 0, {plan::Phase::kPrompt, 256}), first);
  EXPECT_NE(times.of("ffn", 0, {plan::Phase::kStep, 32}), first);
  EXPECT_NE(times.of("qkv", 0, {plan::Phase::kPrompt, 32}), first);
}

// A policy gets expected times from the nodes, which learn from each run.
TEST(TaskTime, N7AnOrderGoesByWhatTasksTookBefore) {
  struct Seen : Policy {
    bool wants_times() const override { return true; }
    void begin(const Pass&, std::span<const double> expected_us) override {
      us.assign(expected_us.begin(), expected_us.end());
    }
    int choose(const Situation& at) override { return at.ready.front(); }
    std::vector<double> us;
  };
  Prompt prompt(0, 1, 2, 1, 1);
  prompt.add(0, 0, false, {}, 30.0);
  prompt.add(1, 0, false, {0}, 50.0);
  Values values;
  values.buffers.resize(1);
  TimedMachine machine(2, &values, {300.0, 500.0});
  const Pass pass = pass_of_chunks(prompt.chunks, plan::Order::kInOrder, 1);
  Runner runner(machine);
  Seen policy;
  runner.run(pass, prompt.runs, {&policy});
  EXPECT_EQ(policy.us, (std::vector{30.0, 50.0}));
  runner.run(pass, prompt.runs, {&policy});
  EXPECT_EQ(policy.us, (std::vector{300.0, 500.0}));
}

// A machine with real threads, one for each lane.
class ThreadMachine : public lanes::Machine {
 public:
  ThreadMachine(int n_lanes, Values* values) {
    for (int i = 0; i < n_lanes; ++i) {
      owned_.push_back(std::make_unique<test::QueueLane>(
          "thread", 1, false, [values](const lanes::Executable& executable, const lanes::Run& run) {
            values->run(static_cast<const HashExecutable&>(executable), run);
            return lanes::Status::kDone;
          }));
      lanes_.push_back(owned_.back().get());
    }
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override { latch.wait(); }

 private:
  RealClock clock_;
  std::vector<std::unique_ptr<test::QueueLane>> owned_;
  std::vector<lanes::Lane*> lanes_;
};

TEST(Chunks, N7ManyThreadsManyTimesStress) {
  Prompt alone(4, 9, 1, 1, 77);
  const Outcome expected = run(alone, plan::Order::kInOrder, 1, 1);
  for (const plan::Order order : kOrders) {
    const int n_sets = sets_of(order, 4);
    Prompt prompt(4, 9, 3, n_sets, 77);
    Values values;
    ThreadMachine machine(3, &values);
    for (int repetition = 0; repetition < 30; ++repetition) {
      values.buffers.assign(static_cast<size_t>(n_sets), {});
      values.keys.clear();
      values.results.clear();
      const Pass pass = pass_of_chunks(prompt.chunks, order, n_sets);
      const std::unique_ptr<Policy> policy = make_policy(order);
      Runner(machine).run(pass, prompt.runs, {policy.get()});
      ASSERT_EQ(values.results, expected.results) << plan::order_name(order);
    }
  }
}

}  // namespace
}  // namespace troika::schedule
