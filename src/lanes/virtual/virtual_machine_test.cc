#include "lanes/virtual/virtual_machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "lanes/virtual/virtual_flash.h"
#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

// A lane that computes for long and reads little takes of the bus what it needs, and no more.
TEST(VirtualMachine, V1ALaneThatComputesLeavesTheBusToOneThatReads) {
  VirtualMachine machine({50.0, {40.0, 40.0}});
  Ended computes, reads;
  machine.start(0, {0.0, 200.0, 2e6}, Status::kDone, computes);  // wants 10 GB/s
  machine.start(1, {0.0, 0.0, 4e6}, Status::kDone, reads);
  machine.wait(reads.latch);
  EXPECT_NEAR(machine.clock().now_us(), 100.0, 1e-6);  // 4 MB at 40 GB/s
  machine.wait(computes.latch);
  EXPECT_NEAR(machine.clock().now_us(), 200.0, 1e-6);
}

// Where all lanes want more than there is, each gets an equal share; what a lane computes beside
// that hides.
TEST(VirtualMachine, V1LanesThatWantMoreThanThereIsShareAlike) {
  VirtualMachine machine({40.0, {40.0, 40.0}});
  Ended first, second;
  machine.start(0, {0.0, 100.0, 3e6}, Status::kDone, first);  // wants 30 GB/s
  machine.start(1, {0.0, 0.0, 6e6}, Status::kDone, second);
  machine.wait(first.latch);
  EXPECT_NEAR(machine.clock().now_us(), 150.0, 1e-6);  // 3 MB at 20 GB/s
  machine.wait(second.latch);
  EXPECT_NEAR(machine.clock().now_us(), 225.0, 1e-6);  // the other 3 MB at 40 GB/s
}

// Work in the background and a core that asks for another lane's reads are one CPU, whose power
// they share, also where a task takes no time.
TEST(VirtualMachine, V5BackgroundAndAskingCountOnceTogether) {
  VirtualMachine machine({50.0, {40.0, 40.0}});
  machine.set_asking(1, 0, 0.3);
  machine.add_background(0, 60.0);
  Ended none, reads;
  machine.start(1, {0.0, 0.0, 0.0}, Status::kDone, none);
  machine.wait(none.latch);
  machine.start(1, {100.0, 0.0, 0.0}, Status::kDone, reads);
  machine.wait(reads.latch);
  EXPECT_LE(machine.powered_us(0), 100.0);
  EXPECT_GE(machine.powered_us(0), 60.0);
}

// Small requests take a flash long, and so they take little of the bus.
TEST(VirtualMachine, V1FlashTakesOfTheBusWhatItReads) {
  const std::string phones = test::repository_file("phones/");
  const CostModel model(plan::read_phone(phones + "8gen3.json"),
                        plan::read_stack(phones + "stacks/powerinfer-2.json"));
  constexpr double kBusGbS = 43.0;
  VirtualMachine machine({kBusGbS, {model.flash_gb_s(), kBusGbS}});
  VirtualFlash flash(machine, model, {});
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 64; ++i) requests.push_back({0, i << 20, 4096, nullptr});
  const double flash_us = flash.read_us(requests);
  const double flash_gb_s = 64 * 4096 / flash_us * 1e-3;
  ASSERT_LT(flash_gb_s, model.flash_gb_s() / 2);
  lanes::Run run;
  run.reads = requests;
  const auto task = flash.make_read();
  Ended brought, computed;
  flash.submit(*task, run, brought);
  machine.start(1, {0.0, 0.0, 4e6}, Status::kDone, computed);
  machine.wait(computed.latch);
  EXPECT_NEAR(machine.clock().now_us(), 4e6 / (kBusGbS - flash_gb_s) * 1e-3, 1e-6);
  machine.wait(brought.latch);
  EXPECT_NEAR(machine.clock().now_us(), flash_us, 1e-6);
}

// What a processor does that is no lane passes beside the tasks of all lanes.
TEST(VirtualMachine, V1BackgroundWorkWithoutALaneIsNoLanesWork) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.add_background(-1, 130.0);
  Ended ended;
  machine.start(0, {0.0, 100.0, 0.0}, Status::kDone, ended);
  machine.wait(ended.latch);
  EXPECT_EQ(machine.outside_us(), 100.0);
  machine.finish_background(-1);
  EXPECT_EQ(machine.clock().now_us(), 130.0);
  EXPECT_EQ(machine.outside_us(), 130.0);
  EXPECT_EQ(machine.busy_us(0), 100.0);
  EXPECT_EQ(machine.busy_us(1), 0.0);
}

}  // namespace
}  // namespace troika::lanes
