// Measures what the scheduler costs: a decision with many tasks pending, and its share of a decode
// step.
//
//   troika_scheduler_bench [MODEL.gguf]
//
// Lanes that do nothing take the place of real ones, so that what is left is the scheduler.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "base/clock.h"
#include "base/median.h"
#include "base/random.h"
#include "engine/session.h"
#include "schedule/runner.h"
#include "tests/support/null_lane.h"

namespace {

using troika::median;
using troika::RealClock;
using troika::lanes::Lane;
using troika::test::NullLane;
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

}  // namespace

int main(int argc, char** argv) {
  try {
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
