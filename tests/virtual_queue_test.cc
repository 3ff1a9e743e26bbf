// A virtual lane has a queue that hides what starting a task costs.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/trace.h"
#include "lanes/virtual/virtual_lane.h"
#include "lanes/virtual/virtual_machine.h"
#include "schedule/runner.h"
#include "tests/support/repository.h"

namespace troika {
namespace {

using lanes::Processor;

// Returns a processor on which starting a task takes a while.
lanes::CostModel llm_npu() {
  const std::string phones = test::repository_file("phones/");
  return {plan::read_phone(phones + "8gen3.json"),
          plan::read_stack(phones + "stacks/llm.npu.json")};
}

struct OneProduct {
  explicit OneProduct(int width) {
    blueprint.values = {{"x", width, false}, {"y", width, false}};
    blueprint.weights = {{"w", 0, width, width, width}};
    model::Op linear{model::OpKind::kLinear};
    linear.inputs[0] = 0;
    linear.output = 1;
    linear.weight = 0;
    blueprint.ops = {linear};
  }
  lanes::Subgraph subgraph() const { return {&blueprint, {blueprint.ops.data(), 1}, "ffn"}; }
  model::Blueprint blueprint;
};

constexpr int kTasks = 12;

struct Times {
  double fixed_us, rest_us;  // belong to one task
  double span_us, busy_us;   // belong to all tasks
};

// Runs tasks on one lane, each of which waits for the one before.
Times chain(int width, int queue_depth) {
  const lanes::CostModel model = llm_npu();
  lanes::VirtualMachine machine(model.bus({Processor::kNpu}));
  lanes::VirtualLaneOptions options;
  options.processor = Processor::kNpu;
  options.queue_depth = queue_depth;
  lanes::VirtualLane lane(machine, model, options);
  const OneProduct product(width);
  const auto executable = lane.make(product.subgraph(), {plan::Phase::kPrompt, 256});
  std::vector<schedule::Node> nodes(kTasks);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].executable = executable.get();
    if (i > 0) nodes[i].waits_for = {static_cast<int>(i) - 1};
  }
  const lanes::TaskCost cost = lane.cost(*executable, {});
  const double memory_us = cost.bytes / (model.read_gb_s(Processor::kNpu) * 1e3);
  schedule::Runner runner(machine);
  runner.run(schedule::Pass(nodes), lanes::Run());
  return {cost.fixed_us, std::max(cost.compute_us, memory_us), machine.clock().now_us(),
          machine.busy_us(0)};
}

TEST(VirtualQueue, StartingATaskHidesBehindTheOneBefore) {
  for (const int width : {64, 4096}) {
    const Times alone = chain(width, 1);
    ASSERT_GT(alone.fixed_us, 0.0);
    EXPECT_NEAR(alone.span_us, kTasks * (alone.fixed_us + alone.rest_us), 1e-6);
    EXPECT_NEAR(alone.busy_us, alone.span_us, 1e-6);
    for (const int depth : {2, 4, 8}) {
      const Times queued = chain(width, depth);
      // Start and rest of a task are two stages, one behind the other. Between the first and the
      // last task the longer stage alone is seen.
      const double hidden = std::max(alone.fixed_us, alone.rest_us);
      EXPECT_NEAR(queued.span_us, alone.fixed_us + alone.rest_us + (kTasks - 1) * hidden, 1e-6)
          << "width " << width << ", depth " << depth;
      EXPECT_NEAR(queued.busy_us, queued.span_us, 1e-6);
      EXPECT_LT(queued.span_us, alone.span_us);
    }
  }
}

// A lane starts anew after it ran empty; a queue keeps it from running empty.
TEST(VirtualQueue, ARestartIsPaidOnce) {
  for (const int depth : {1, 3}) {
    lanes::VirtualMachine machine({0.0, {0.0, 0.0}});
    machine.set_transitions({{{}, {100.0, 0.0}}});
    machine.set_queue_depth(0, depth);
    struct Chain : lanes::Completion {
      void finished(lanes::Status) override {
        if (--n_left > 0 && depth == 1) {
          machine->start(0, {0.0, 10.0, 0.0}, lanes::Status::kDone, *this);
        }
        if (n_left == 0) latch.open();
      }
      lanes::VirtualMachine* machine = nullptr;
      int depth = 0;
      int n_left = 3;
      lanes::Latch latch;
    };
    Chain chain;
    chain.machine = &machine;
    chain.depth = depth;
    for (int i = 0; i < depth; ++i) {
      machine.start(0, {0.0, 10.0, 0.0}, lanes::Status::kDone, chain);
    }
    machine.wait(chain.latch);
    EXPECT_NEAR(machine.clock().now_us(), 130.0, 1e-6) << depth;
  }
}

// Tasks in a queue share the bus with those of another lane as single tasks do: only the task that
// runs reads.
TEST(VirtualQueue, WhatWaitsInAQueueReadsNothing) {
  lanes::VirtualMachine machine({60.0, {40.0, 40.0}});
  machine.set_queue_depth(0, 2);
  lanes::Ended ends[3];
  machine.start(0, {0.0, 0.0, 3e6}, lanes::Status::kDone, ends[0]);
  machine.start(0, {50.0, 0.0, 3e6}, lanes::Status::kDone, ends[1]);
  machine.start(1, {0.0, 0.0, 9e6}, lanes::Status::kDone, ends[2]);
  machine.wait(ends[0].latch);
  EXPECT_NEAR(machine.clock().now_us(), 100.0, 1e-6);  // has read 3 MB at 30 GB/s
  machine.wait(ends[1].latch);
  EXPECT_NEAR(machine.clock().now_us(), 200.0, 1e-6);
  // The last one has read 6 MB by then, and reads 3 MB more at 40 GB/s.
  machine.wait(ends[2].latch);
  EXPECT_NEAR(machine.clock().now_us(), 275.0, 1e-6);
}

// Tasks of two lanes in turn keep their order, and the trace shows no two tasks of a lane at once.
TEST(VirtualQueue, ATraceShowsWhenTasksRan) {
  const lanes::CostModel model = llm_npu();
  lanes::VirtualMachine machine(model.bus({Processor::kCpu, Processor::kNpu}));
  lanes::VirtualLaneOptions options;
  lanes::VirtualLane cpu(machine, model, options);
  options.processor = Processor::kNpu;
  options.queue_depth = 4;
  lanes::VirtualLane npu(machine, model, options);
  const OneProduct product(1024);
  const auto on_cpu = cpu.make(product.subgraph(), {plan::Phase::kPrompt, 64});
  const auto on_npu = npu.make(product.subgraph(), {plan::Phase::kPrompt, 64});
  std::vector<schedule::Node> nodes(24);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].lane = i % 4 == 3 ? 0 : 1;
    nodes[i].executable = nodes[i].lane == 0 ? on_cpu.get() : on_npu.get();
    if (i > 0) nodes[i].waits_for = {static_cast<int>(i) - 1};
  }
  Trace trace({"cpu", "npu"});
  schedule::Runner runner(machine);
  schedule::RunOptions how;
  how.trace = &trace;
  runner.run(schedule::Pass(nodes), lanes::Run(), how);
  const std::vector<TraceEvent> events = trace.events();
  ASSERT_EQ(events.size(), nodes.size());
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].lane, nodes[i].lane);
    EXPECT_GE(events[i].start_us, events[i - 1].end_us - 1e-6);
  }
}

}  // namespace
}  // namespace troika
