#include "lanes/virtual/virtual_lane.h"
#include "tests/support/repository.h"

#include <gtest/gtest.h>

namespace troika::lanes {
namespace {

const std::string kPhones = test::repository_file("phones/");

CostModel heterollm() {
  return {plan::read_phone(kPhones + "8gen3.json"),
          plan::read_stack(kPhones + "stacks/heterollm.json")};
}

// A linear op and an attention, each alone in its subgraph.
struct TwoOps {
  TwoOps() {
    blueprint.n_heads = 32;
    blueprint.head_dim = 128;
    blueprint.values = {{"x", 4096, false}, {"y", 14336, false}};
    blueprint.weights = {{"w", 0, 14336, 4096, 14336}};
    model::Op linear{model::OpKind::kLinear};
    linear.inputs[0] = 0;
    linear.output = 1;
    linear.weight = 0;
    model::Op attention{model::OpKind::kAttention};
    attention.inputs = {0, 0, 0};
    attention.output = 0;
    blueprint.ops = {linear, attention};
  }
  Subgraph linear() const { return {&blueprint, {blueprint.ops.data(), 1}, "ffn"}; }
  Subgraph attention() const { return {&blueprint, {blueprint.ops.data() + 1, 1}, "attention"}; }
  model::Blueprint blueprint;
};

TEST(VirtualLane, V1_ATaskTakesTheTimeOfItsOps) {
  const CostModel model = heterollm();
  VirtualMachine machine(model.bus({Processor::kNpu}));
  VirtualLane lane(machine, model, {Processor::kNpu, Arithmetic::kFp16, 0.5});
  const TwoOps ops;
  const auto executable = lane.make(ops.linear(), {plan::Phase::kPrompt, 256});
  Ended end;
  lane.submit(*executable, {}, end);
  machine.wait(end.latch);
  EXPECT_EQ(end.status, Status::kDone);
  Product product{256, 4096, 14336, Arithmetic::kFp16};
  product.weight_bytes = 0.5;
  const TaskCost cost = model.product(Processor::kNpu, product);
  const double memory_us = cost.bytes / (model.read_gb_s(Processor::kNpu) * 1e3);
  EXPECT_NEAR(machine.clock().now_us(), cost.fixed_us + std::max(cost.compute_us, memory_us), 1e-6);
}

// Who builds an executable may change or drop the arrangements behind it.
TEST(VirtualLane, N8ArrangementsAreReadOnlyWhileAnExecutableIsBuilt) {
  const CostModel model = heterollm();
  VirtualMachine machine(model.bus({Processor::kGpu}));
  VirtualLaneOptions options = {Processor::kGpu, Arithmetic::kFp16, 0.5};
  options.has_square_shapes = true;
  VirtualLane lane(machine, model, options);
  const TwoOps ops;
  Subgraph subgraph = ops.linear();
  plan::ProductArrangement choice = {0, 14336, 4096, {plan::Phase::kPrompt, 256}, ""};
  subgraph.arrangements = {&choice, 1};
  const auto executable = lane.make(subgraph, {plan::Phase::kPrompt, 256});
  choice = {0, 14336, 4096, {plan::Phase::kPrompt, 100}, "gone"};
  lanes::Run run;
  run.phase = plan::Phase::kPrompt;
  run.n_tokens = 100;
  Ended end;
  EXPECT_NO_THROW(lane.submit(*executable, run, end));
  machine.wait(end.latch);
  EXPECT_EQ(end.status, Status::kDone);
}

TEST(VirtualLane, H7_TwoLanesReadOneWeightInLessTimeThanOne) {
  const CostModel model = heterollm();
  const auto us = [&](bool is_cut) {
    VirtualMachine machine(model.bus({Processor::kGpu, Processor::kCpu}));
    VirtualLane gpu(machine, model, {Processor::kGpu, Arithmetic::kFp16, 0.5});
    VirtualLane cpu(machine, model, {Processor::kCpu, Arithmetic::kInt8, 0.5});
    TwoOps ops;
    if (is_cut) ops.blueprint.weights[0].n_rows /= 2;
    const auto on_gpu = gpu.make(ops.linear(), {});
    const auto on_cpu = cpu.make(ops.linear(), {});
    Ended of_gpu, of_cpu;
    gpu.submit(*on_gpu, {}, of_gpu);
    if (is_cut) cpu.submit(*on_cpu, {}, of_cpu);
    machine.wait(of_gpu.latch);
    EXPECT_EQ(of_gpu.status, Status::kDone);
    if (is_cut) {
      machine.wait(of_cpu.latch);
      EXPECT_EQ(of_cpu.status, Status::kDone);
    }
    return machine.clock().now_us();
  };
  EXPECT_LT(us(true), 0.85 * us(false));
}

TEST(VirtualLane, AttentionCostsByThePositionsThatAreVisible) {
  const CostModel model = heterollm();
  VirtualMachine machine(model.bus({Processor::kGpu}));
  VirtualLane lane(machine, model, {Processor::kGpu});
  const TwoOps ops;
  const auto executable = lane.make(ops.attention(), {plan::Phase::kStep, 4});
  const std::vector<cache::Slot> slots(512);
  const auto cost = [&](size_t n_positions) {
    const std::vector<cache::VisibleSlots> visible(4, {{slots.data(), n_positions}, {}});
    lanes::Run run;
    run.visible = visible;
    return lane.cost(*executable, run);
  };
  EXPECT_NEAR(cost(512).compute_us / cost(64).compute_us, 8.0, 1e-6);
  EXPECT_NEAR(cost(512).bytes / cost(64).bytes, 8.0, 1e-6);
  EXPECT_EQ(cost(0).compute_us, 0.0);
}

// A mixture of one expert that every token takes does what a plain product does.
TEST(VirtualLane, ASingleExpertCostsWhatAPlainProductOfItsWeightCosts) {
  const CostModel model{plan::read_phone(kPhones + "8gen3.json"),
                        plan::read_stack(kPhones + "stacks/llm.npu.json")};
  TwoOps ops;
  ops.blueprint.n_experts = 1;
  ops.blueprint.n_experts_used = 1;
  for (const Processor processor : {Processor::kCpu, Processor::kGpu, Processor::kNpu}) {
    double plain_us = 0.0;
    for (const auto& [has_groups, has_squares] :
         {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      VirtualLaneOptions options = {processor, Arithmetic::kInt8};
      options.has_group_scales = has_groups;
      options.has_square_shapes = has_squares;
      VirtualMachine machine(model.bus({processor}));
      const VirtualLane lane(machine, model, options);
      for (const plan::Shape shape :
           {plan::Shape{plan::Phase::kPrompt, 256}, {plan::Phase::kStep, 1}}) {
        const auto cost = [&](model::OpKind kind) {
          ops.blueprint.ops[0].kind = kind;
          return lane.cost(*lane.make(ops.linear(), shape), {});
        };
        const TaskCost linear = cost(model::OpKind::kLinear);
        const TaskCost expert = cost(model::OpKind::kExpertLinear);
        EXPECT_EQ(expert.fixed_us, linear.fixed_us) << processor_name(processor);
        EXPECT_EQ(expert.compute_us, linear.compute_us) << processor_name(processor);
        EXPECT_EQ(expert.bytes, linear.bytes) << processor_name(processor);
        if (shape.n_rows == 1) continue;
        if (!has_groups && !has_squares) plain_us = linear.compute_us;
        // Only an NPU knows these forms, and each of them changes its time.
        const bool is_changed = processor == Processor::kNpu && (has_groups || has_squares);
        EXPECT_EQ(linear.compute_us != plain_us, is_changed) << processor_name(processor);
      }
    }
  }
}

TEST(VirtualLane, N9_TheNpuTellsItsMemoryLimit) {
  const CostModel model = heterollm();
  VirtualMachine machine(model.bus({Processor::kNpu, Processor::kCpu}));
  VirtualLane npu(machine, model, {Processor::kNpu});
  VirtualLane cpu(machine, model, {Processor::kCpu});
  EXPECT_EQ(npu.info().memory_limit_bytes, 4'000'000'000u);
  EXPECT_EQ(cpu.info().memory_limit_bytes, SIZE_MAX);
  ASSERT_EQ(machine.lanes().size(), 2u);
  EXPECT_EQ(machine.lanes()[1], &cpu);
}

}  // namespace
}  // namespace troika::lanes
