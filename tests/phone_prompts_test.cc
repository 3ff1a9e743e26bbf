// Tests what a simulated phone assumes of its graphs when it runs prompts.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "machines/phone_prompts.h"
#include "tests/support/repository.h"

namespace troika {
namespace {

// A run takes the same time each time that the phone is told to assume prompt graphs, because it
// keeps what it knows of its blocks' times.
TEST(PhoneSession, D1GraphsThatAreAssumedAgainTakeTheSameTime) {
  prepare::Options options;
  options.phone.file = test::repository_file("phones/8gen2.json");
  options.phone.stack = "sd.npu";
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.phone.has_values = false;
  options.phone.small_shapes = {1, 32};
  options.memory.layouts = prepare::Layouts::kSwitch;
  options.prompts.order = plan::Order::kInOrder;
  options.prompts.chunk = 64;
  options.memory.context = 512;
  options.model.file = "tiny-llama";
  options.model.type = "q8_0";
  engine::Engine engine(options);
  engine::Session session(engine);
  machines::PhonePrompts& prompts = *engine.phone().prompts;
  double first_us = 0.0;
  for (int turn = 0; turn < 3; ++turn) {
    prompts.assume(schedule::Layout::kPrompt);
    session.truncate(0);
    const double start_us = engine.machine().clock().now_us();
    session.prefill(std::vector<cache::Token>(256, 0));
    prompts.finish();
    const double us = engine.machine().clock().now_us() - start_us;
    EXPECT_GT(us, 0.0);
    if (turn == 0) first_us = us;
    EXPECT_NEAR(us, first_us, 1e-6 * first_us) << turn;
  }
}

// A block of a mixture is loaded with all of its experts: which ones tokens take is not known.
TEST(PhoneSession, D1ExpertsAreLoadedWithTheirBlock) {
  prepare::Options options;
  options.phone.file = test::repository_file("phones/8gen2.json");
  options.phone.stack = "sd.npu";
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.phone.has_values = false;
  options.phone.small_shapes = {1, 32};
  options.memory.layouts = prepare::Layouts::kSwitch;
  options.prompts.order = plan::Order::kInOrder;
  options.prompts.chunk = 64;
  options.memory.context = 512;
  options.model.file = "mixtral-8x7b";
  options.model.type = "q8_0";
  const engine::Engine engine(options);
  const model::Blueprint& blueprint = engine.blueprint();
  ASSERT_EQ(blueprint.n_experts, 8);
  // Gate, up and down of eight experts, with 34 bytes for 32 weights.
  const double bytes = 8 * 3.0 * blueprint.width * 14336 * 34 / 32;
  const double gb_s = engine.phone().machine->model().stack().flash.sequential_gb_s.value;
  EXPECT_GT(engine.phone().prompts->block_load_us(), 1e6 * bytes / (1e9 * gb_s));
}

// Returns what a phone did until it had calibrated drafts with 300 positions and nothing else.
lanes::PhoneUse calibrated(const char* lanes, const char* cores) {
  prepare::Options options;
  options.phone.file = test::repository_file("phones/8gen2.json");
  options.phone.stack = "sd.npu";
  options.phone.processors = lanes::processors_from_text(lanes);
  if (*cores != '\0') options.phone.cores = lanes::cores_from_text(cores);
  options.phone.has_values = false;
  options.model.file = "tiny-llama";
  options.model.type = "q8_0";
  engine::Engine engine(options);
  engine.phone().prompts->calibrate(300);
  engine.phone().prompts->finish();
  return engine.phone().machine->use();
}

// 2 ms of one core for each position are shared by the cores that are used.
TEST(PhoneSession, D2CoresThatAreUsedCalibrate) {
  const lanes::PhoneUse all = calibrated("cpu;npu", "");
  const lanes::PhoneUse two = calibrated("cpu;npu", "prime=1,middle=1");
  EXPECT_NEAR(two.now_us, 300 * 2000.0 / 2, 1e-3);
  EXPECT_LT(all.now_us, two.now_us);
  EXPECT_NEAR(two.busy_us[0], two.now_us, 1e-3);
}

// The work of a CPU that is no lane belongs to no other processor.
TEST(PhoneSession, D2ACpuThatIsNoLaneCalibratesToo) {
  const lanes::PhoneUse use = calibrated("npu", "");
  EXPECT_EQ(use.busy_us, std::vector<double>{0.0});
  EXPECT_NEAR(use.outside_us, use.now_us, 1e-3);
  EXPECT_NEAR(use.now_us, calibrated("cpu;npu", "").now_us, 1e-3);
}

}  // namespace
}  // namespace troika
