#include "lanes/host/host_machine.h"

#include <gtest/gtest.h>

#include "kernels/choose.h"
#include "tests/support/queue_lane.h"

namespace troika::lanes {
namespace {

TEST(HostMachine, DevicesStandWhereThePlanNamesThem) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features(), "reference");
  plan::Plan plan;
  plan.lanes = {{{}, 1}, {{}, 0}};
  plan.lanes[1].kind = "opencl";
  plan.lanes[1].device = "7";
  const Lane* made = nullptr;
  const auto make_device = [&](const plan::PlannedLane& lane) {
    EXPECT_EQ(plan::lane_text(lane), "opencl:7");
    auto queue = std::make_unique<test::QueueLane>(
        "queue", 2, false, [](const Executable&, const lanes::Run&) { return Status::kDone; });
    made = queue.get();
    return queue;
  };
  const HostMachine machine(kernels.table, plan, nullptr, nullptr, make_device);
  ASSERT_EQ(machine.lanes().size(), 2u);
  EXPECT_EQ(machine.lanes()[0]->info().name, "host");
  // The queue is not wrapped: it reports completions itself, so it needs no thread of another lane.
  EXPECT_EQ(machine.lanes()[1], made);
}

}  // namespace
}  // namespace troika::lanes
