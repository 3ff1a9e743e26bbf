#include "lanes/virtual/virtual_phone.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "lanes/virtual/timed_task.h"
#include "lanes/virtual/virtual_flash.h"
#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

const std::string kPhones = test::repository_file("phones/");

CostModel heterollm() {
  return {plan::read_phone(kPhones + "8gen3.json"),
          plan::read_stack(kPhones + "stacks/heterollm.json")};
}

struct OneAdd {
  OneAdd() {
    blueprint.values = {{"x", 1024, false}};
    model::Op add{model::OpKind::kAdd};
    add.inputs = {0, 0, model::kNone};
    add.output = 0;
    blueprint.ops = {add};
  }
  model::Blueprint blueprint;
};

// Returns the time of a small task on a lane, right after the same task on lane `before`.
double us_after(VirtualPhone& phone, size_t before, size_t lane,
                plan::Phase phase = plan::Phase::kStep) {
  const OneAdd one;
  const Subgraph subgraph = {&one.blueprint, one.blueprint.ops, "ffn"};
  double start_us = 0.0;
  for (const size_t i : {before, before, lane}) {
    auto& worker = static_cast<VirtualLane&>(*phone.lanes()[i]);
    const auto executable = worker.make(subgraph, {phase, 1});
    start_us = phone.clock().now_us();
    Ended ended;
    worker.submit(*executable, {}, ended);
    phone.wait(ended.latch);
  }
  return phone.clock().now_us() - start_us;
}

TEST(VirtualPhone, AHandoverCostsWhatTheStackSays) {
  const CostModel model = heterollm();
  constexpr size_t kCpu = 0, kGpu = 1, kNpu = 2;
  VirtualPhone fast(model, {}, nullptr);
  const double on_gpu = us_after(fast, kGpu, kGpu);
  const double on_npu = us_after(fast, kNpu, kNpu);
  for (const plan::Phase phase : {plan::Phase::kStep, plan::Phase::kPrompt}) {
    EXPECT_NEAR(us_after(fast, kNpu, kGpu, phase) - on_gpu,
                model.handover_us(true, Processor::kNpu, Processor::kGpu, phase), 1e-6);
    EXPECT_NEAR(us_after(fast, kGpu, kNpu, phase) - on_npu,
                model.handover_us(true, Processor::kGpu, Processor::kNpu, phase), 1e-6);
  }
  PhoneOptions ordinary;
  ordinary.has_fast_handover = false;
  VirtualPhone slow(model, ordinary, nullptr);
  EXPECT_NEAR(us_after(slow, kCpu, kNpu) - on_npu, model.stack().handover.sync_us, 1e-6);
  EXPECT_NEAR(us_after(slow, kCpu, kGpu) - on_gpu,
              model.stack().handover.sync_us + model.stack().gpu.restart_us, 1e-6);
}

TEST(VirtualPhone, V5_EnergyIsPowerTimesBusyTime) {
  const CostModel model = heterollm();
  VirtualPhone phone(model, {{Processor::kGpu, Processor::kNpu}, true}, nullptr);
  const PhoneUse start = phone.use();
  us_after(phone, 0, 1);
  const PhoneUse end = phone.use();
  const double all_us = end.now_us - start.now_us;
  double expected = model.phone().power.idle_w * all_us * 1e-6;
  for (const auto& [processor, lane] :
       {std::pair(Processor::kGpu, size_t{0}), std::pair(Processor::kNpu, size_t{1})}) {
    expected += model.power_w(processor) * end.busy_us[lane] * 1e-6 +
                model.wait_w(processor) * (all_us - end.busy_us[lane]) * 1e-6;
    EXPECT_GT(model.wait_w(processor), 0.0);
    EXPECT_LT(model.wait_w(processor), model.power_w(processor));
    EXPECT_LT(end.busy_us[lane], all_us);  // shows that the lane also waits
  }
  EXPECT_GT(end.busy_us[0], 0.0);
  EXPECT_GT(end.busy_us[1], 0.0);
  expected += model.core_w({0, 0, 1}) * end.polled_us * 1e-6;
  EXPECT_NEAR(phone.energy_j(start, end), expected, 1e-12);
  EXPECT_EQ(phone.energy_j(end, phone.use()), 0.0);
}

// H §4.2: the thread sleeps for the time that it expects to wait and then polls, on a small core.
TEST(VirtualPhone, H8_ASmallCorePollsBeforeAFastHandover) {
  const CostModel model = heterollm();
  const auto& handover = model.stack().handover;
  constexpr size_t kGpu = 1, kNpu = 2;
  VirtualPhone fast(model, {}, nullptr);
  us_after(fast, kGpu, kGpu);
  EXPECT_EQ(fast.use().polled_us, 0.0);
  us_after(fast, kGpu, kNpu);
  EXPECT_GT(fast.use().polled_us, 0.0);
  EXPECT_LE(fast.use().polled_us, handover.sleep_us + handover.poll_us);
  PhoneOptions ordinary;
  ordinary.has_fast_handover = false;
  VirtualPhone slow(model, ordinary, nullptr);
  us_after(slow, kGpu, kNpu);
  EXPECT_EQ(slow.use().polled_us, 0.0);
}

class CostedTask : public TimedTask {
 public:
  explicit CostedTask(const TaskCost& cost) : TimedTask(1), cost_(cost) {}
  TaskCost cost(const lanes::Run&) const override { return cost_; }

 private:
  TaskCost cost_;
};

// Returns the energy beside that of the idle phone, where the flash reads for 100 us and the CPU
// computes for as long with a share of its cores; 0: it computes nothing.
double beside_reads_j(const CostModel& model, const Cores& asking, double share) {
  PhoneOptions options;
  options.lanes = {Processor::kCpu};
  options.flash_queue = 4;
  options.flash_core = asking;
  VirtualPhone phone(model, options, nullptr);
  const CostedTask computes({0.0, 100.0, 0.0, share}), reads({0.0, 100.0, 0.0});
  const PhoneUse start = phone.use();
  Ended computed, brought;
  if (share > 0.0) phone.lanes()[0]->submit(computes, {}, computed);
  phone.lanes()[1]->submit(reads, {}, brought);
  phone.wait(brought.latch);
  const PhoneUse end = phone.use();
  EXPECT_NEAR(end.now_us, 100.0, 1e-9);
  return phone.energy_j(start, end) - model.phone().power.idle_w * 100e-6;
}

// A core that asks for reads counts once, whether it is missing among those that compute or not.
TEST(VirtualPhone, V5_TheCoreThatAsksCountsOnce) {
  const CostModel model = heterollm();
  const double all_w = model.power_w(Processor::kCpu), wait_w = model.wait_w(Processor::kCpu);
  const double prime = model.core_w({1, 0, 0}) / all_w;
  EXPECT_GT(prime, 0.1);
  const auto joules = [&](double share) { return beside_reads_j(model, {1, 0, 0}, share); };
  EXPECT_NEAR(joules(0.0), (all_w * prime + wait_w * (1.0 - prime)) * 100e-6, 1e-12);
  EXPECT_NEAR(joules(1.0 - prime), all_w * 100e-6, 1e-12);
  EXPECT_NEAR(joules(1.0), all_w * 100e-6, 1e-12);
  // A small core is none of the lane's.
  EXPECT_NEAR(beside_reads_j(model, {0, 0, 1}, 1.0), (all_w + model.core_w({0, 0, 1})) * 100e-6,
              1e-12);
  EXPECT_LT(model.core_w({0, 0, 1}), model.core_w({1, 0, 0}) / 2);
}

TEST(VirtualPhone, ProcessorsHaveNames) {
  EXPECT_EQ(processor_from_name("npu"), Processor::kNpu);
  EXPECT_THROW(processor_from_name("tpu"), UsageError);
}

TEST(VirtualFlash, TheSameTaskKindAsTheDiskTakesTheTimeOfTheModel) {
  const CostModel model = heterollm();
  VirtualMachine machine({0.0, {0.0}});
  VirtualFlash flash(machine, model, {});
  const std::vector<ReadRequest> reads = {{0, 0, 4096, nullptr}, {0, 1 << 20, 4096, nullptr}};
  lanes::Run run;
  run.reads = reads;
  Ended ended;
  const auto task = flash.make_read();
  flash.submit(*task, run, ended);
  machine.wait(ended.latch);
  EXPECT_EQ(ended.status, Status::kDone);
  FlashRead read;
  read.n_requests = 2;
  EXPECT_NEAR(machine.clock().now_us(), model.flash_us(read), 1e-6);
}

TEST(VirtualFlash, OneLongReadIsFasterThanManyShortOnes) {
  const CostModel model = heterollm();
  VirtualMachine machine({0.0, {0.0}});
  VirtualFlash flash(machine, model, {});
  std::vector<ReadRequest> apart, together;
  for (uint64_t i = 0; i < 64; ++i) {
    apart.push_back({0, i * 100'000, 4096, nullptr});
    together.push_back({0, i * 4096, 4096, nullptr});
  }
  const std::vector<ReadRequest> whole = {{0, 0, 64 * 4096, nullptr}, {0, 64 * 4096, 1, nullptr}};
  EXPECT_LT(flash.read_us(whole), flash.read_us(together));
  EXPECT_LE(flash.read_us(together), flash.read_us(apart));
}

}  // namespace
}  // namespace troika::lanes
