// Measures what the scheduler costs: a decision with many tasks pending, and its share of a decode
// step.
//
//   troika_scheduler_bench [MODEL.gguf]
//   troika_scheduler_bench handover
//
// Lanes that do nothing take the place of real ones, so that what is left is the scheduler. The
// second form hands tasks of 50 to 1,000 microseconds over between two lanes with a core each (H8).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/median.h"
#include "base/random.h"
#include "base/spin.h"
#include "base/system.h"
#include "bench/busy_lane.h"
#include "engine/session.h"
#include "lanes/threaded_lane.h"
#include "schedule/runner.h"
#include "tests/support/null_lane.h"

namespace {

using troika::median;
using troika::RealClock;
using troika::lanes::Lane;
using troika::test::NullLane;
namespace bench = troika::bench;
namespace schedule = troika::schedule;

constexpr int kRepetitions = 21;

class NullMachine : public troika::lanes::Machine {
 public:
  explicit NullMachine(int n_lanes) {
    for (int i = 0; i < n_lanes; ++i) {
      owned_.push_back(std::make_unique<NullLane>(fmt::format("null {}", i)));
      lanes_.push_back(owned_.back().get());
    }
  }
  std::span<Lane* const> lanes() const override { return lanes_; }
  const troika::Clock& clock() const override { return clock_; }
  void wait(const troika::lanes::Latch& latch) override { latch.wait(); }
  NullLane& lane(size_t i) { return *owned_[i]; }

 private:
  RealClock clock_;
  std::vector<std::unique_ptr<NullLane>> owned_;
  std::vector<Lane*> lanes_;
};

// Takes the first ready task, whatever its place: as many are ready as can be.
class AnyReady : public schedule::Policy {
 public:
  int choose(const schedule::Situation& at) override { return at.ready.front(); }
};

// Measures tasks that each wait for up to two earlier ones, spread over lanes.
void measure_decisions(int n_tasks, int n_lanes, int most_waits) {
  NullMachine machine(n_lanes);
  std::vector<std::unique_ptr<troika::lanes::Executable>> executables;
  const troika::lanes::Run run;
  std::vector<schedule::Node> nodes;
  for (int i = 0; i < n_tasks; ++i) {
    const auto bits = troika::random_bits(1, static_cast<uint64_t>(i));
    const int lane = static_cast<int>(bits % static_cast<uint64_t>(n_lanes));
    executables.push_back(machine.lane(static_cast<size_t>(lane)).make(1));
    schedule::Node node;
    node.lane = lane;
    node.executable = executables.back().get();
    node.name = "task";
    for (int w = 0; w < most_waits && i > 0; ++w) {
      const auto other = static_cast<int>(
          troika::random_bits(2 + static_cast<uint64_t>(w), static_cast<uint64_t>(i)) %
          static_cast<uint64_t>(i));
      if (std::find(node.waits_for.begin(), node.waits_for.end(), other) == node.waits_for.end()) {
        node.waits_for.push_back(other);
      }
    }
    nodes.push_back(std::move(node));
  }
  const schedule::Pass pass(std::move(nodes));
  AnyReady policy;
  schedule::Runner runner(machine);
  std::vector<double> per_decision, per_task;
  for (int i = 0; i < kRepetitions; ++i) {
    schedule::SchedulerStatistics s;
    const double start_us = machine.clock().now_us();
    runner.run(pass, run, {&policy, &s});
    per_task.push_back((machine.clock().now_us() - start_us) / n_tasks);
    per_decision.push_back(s.decision_us / static_cast<double>(s.n_decisions));
  }
  fmt::print(
      "{:>5} tasks pending, {} lanes, {} dependencies each: {:.3f} us a decision, {:.3f} us a "
      "task in all\n",
      n_tasks, n_lanes, most_waits, median(per_decision), median(per_task));
}

// Returns the time of a pass of one task behind the other, on each lane in turn. On one lane
// nothing is decided.
double step_us(int n_tasks, int n_lanes) {
  NullMachine machine(n_lanes);
  std::vector<schedule::Task> tasks;
  for (int i = 0; i < n_tasks; ++i) {
    const int lane = i % n_lanes;
    const std::vector<int> waits_for = i > 0 ? std::vector{i - 1} : std::vector<int>();
    tasks.push_back({lane, machine.lane(static_cast<size_t>(lane)).make(1), "task", i, waits_for});
  }
  const schedule::Pass pass = schedule::pass_of(tasks);
  schedule::Runner runner(machine);
  std::vector<double> times;
  for (int i = 0; i < 10 * kRepetitions; ++i) {
    const double start_us = machine.clock().now_us();
    runner.run(pass, troika::lanes::Run());
    times.push_back(machine.clock().now_us() - start_us);
  }
  return median(times);
}

void measure_decode(const char* model) {
  troika::prepare::Options options;
  options.model.file = model;
  options.memory.context = 128;
  troika::engine::Engine engine(options);
  troika::engine::Session session(engine);
  troika::engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  troika::engine::Sampler sampler(greedy);
  session.prefill(std::vector<troika::engine::Token>{0, 1, 2, 3});
  session.next(sampler);
  std::vector<double> steps;
  for (int i = 0; i < kRepetitions; ++i) {
    const double start_us = engine.machine().clock().now_us();
    session.next(sampler);
    steps.push_back(engine.machine().clock().now_us() - start_us);
  }
  const int n_tasks =
      static_cast<int>(engine.graphs().body(troika::plan::Phase::kStep, 1).tasks.size() +
                       engine.graphs().head(1).tasks.size());
  const double scheduling_us = step_us(n_tasks, 1);
  fmt::print("{}: a step of {} tasks takes {:.0f} us, of which scheduling is {:.2f} us: {:.4f} %\n",
             model, n_tasks, median(steps), scheduling_us, 100.0 * scheduling_us / median(steps));
}

// Measures the time from the end of a task to the start of the next one, on the other lane.
void measure_handover(double task_us, troika::plan::HandoverKind handover) {
  constexpr int kTasks = 200;
  const std::vector<int> cores = troika::usable_core_numbers();
  bench::GivenMachine machine;
  std::vector<std::unique_ptr<troika::lanes::ThreadedLane>> owned;
  bench::BusyLane* busy[2];
  std::vector<std::unique_ptr<troika::lanes::Executable>> executables;
  for (size_t i = 0; i < 2; ++i) {
    auto lane = std::make_unique<bench::BusyLane>(cores[i], task_us);
    busy[i] = lane.get();
    owned.push_back(std::make_unique<troika::lanes::ThreadedLane>(std::move(lane), handover));
    machine.add(owned.back().get());
  }
  std::vector<schedule::Node> nodes;
  for (int i = 0; i < kTasks; ++i) {
    executables.push_back(busy[i % 2]->make(1));
    schedule::Node& node = nodes.emplace_back();
    node.lane = i % 2;
    node.executable = executables.back().get();
    node.name = "task";
    if (i > 0) node.waits_for = {i - 1};
  }
  const schedule::Pass pass(std::move(nodes));
  schedule::Runner runner(machine);
  constexpr int kPasses = 4;  // the first pass teaches how long waits are
  for (int i = 0; i < kPasses; ++i) runner.run(pass, troika::lanes::Run());
  std::vector<double> gaps;
  for (size_t i = kTasks; i + 1 < static_cast<size_t>(kPasses) * kTasks; ++i) {
    if ((i + 1) % kTasks == 0) continue;  // the next task belongs to another pass
    gaps.push_back(busy[(i + 1) % 2]->starts_us[(i + 1) / 2] - busy[i % 2]->ends_us[i / 2]);
  }
  std::sort(gaps.begin(), gaps.end());
  fmt::print("{:>6.0f} us  {:<9} {:>8.2f} us median {:>8.2f} us p90; awake for {:.0f} % of waits\n",
             task_us, troika::plan::handover_name(handover), median(gaps),
             gaps[gaps.size() * 9 / 10],
             100.0 * (busy[0]->waiting_cpu_us + busy[1]->waiting_cpu_us) /
                 (busy[0]->waiting_us + busy[1]->waiting_us));
}

// Measures how long the system takes to wake a thread that sleeps on a number.
void measure_futex(double task_us) {
  constexpr int kTasks = 200;
  const std::vector<int> cores = troika::usable_core_numbers();
  std::atomic<int> turn{0};
  std::vector<double> ends(kTasks), starts(kTasks);
  const auto work = [&](int me) {
    troika::bind_to_cores({cores[static_cast<size_t>(me)]});
    for (int i = me; i < kTasks; i += 2) {
      for (int now = turn.load(); now != i; now = turn.load()) turn.wait(now);
      starts[static_cast<size_t>(i)] = RealClock().now_us();
      while (RealClock().now_us() < starts[static_cast<size_t>(i)] + task_us) troika::pause_cpu();
      ends[static_cast<size_t>(i)] = RealClock().now_us();
      turn.store(i + 1);
      turn.notify_all();
    }
  };
  std::thread other([&] { work(1); });
  std::thread mine([&] { work(0); });
  other.join();
  mine.join();
  std::vector<double> gaps;
  for (size_t i = 1; i < kTasks; ++i) gaps.push_back(starts[i] - ends[i - 1]);
  std::sort(gaps.begin(), gaps.end());
  fmt::print("{:>6.0f} us  {:<9} {:>8.2f} us median {:>8.2f} us p90\n", task_us, "futex",
             median(gaps), gaps[gaps.size() * 9 / 10]);
}

void measure_handovers() {
  if (troika::usable_core_numbers().size() < 2) {
    throw troika::Error("Two lanes need two cores, and this process may use one.");
  }
  fmt::print("from the end of a task to the start of the next on another core\n");
  for (const double task_us : {50.0, 100.0, 200.0, 500.0, 1000.0}) {
    measure_futex(task_us);
    for (const auto handover :
         {troika::plan::HandoverKind::kOrdinary, troika::plan::HandoverKind::kFast}) {
      measure_handover(task_us, handover);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "handover") {
      measure_handovers();
      return EXIT_SUCCESS;
    }
    for (const int n_lanes : {2, 4}) measure_decisions(1000, n_lanes, 2);
    measure_decisions(1000, 4, 0);  // all are ready from the beginning
    for (const int n_lanes : {1, 2}) {
      const double us = step_us(99, n_lanes);
      fmt::print(
          "   99 tasks one behind the other on {} lanes: {:.2f} us in all, {:.3f} us a task\n",
          n_lanes, us, us / 99);
    }
    if (argc > 1) measure_decode(argv[1]);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
