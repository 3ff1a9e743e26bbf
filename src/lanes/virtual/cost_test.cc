#include "lanes/virtual/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

const std::string kPhones = test::repository_file("phones/");

CostModel model_of(const std::string& phone, const std::string& stack) {
  return {plan::read_phone(kPhones + phone + ".json"),
          plan::read_stack(kPhones + "stacks/" + stack + ".json")};
}

double us(const CostModel& model, Processor processor, const Product& product) {
  const TaskCost cost = model.product(processor, product);
  return cost.fixed_us + std::max(cost.compute_us, cost.bytes / (model.read_gb_s(processor) * 1e3));
}

Product half(int64_t rows, int64_t columns, int64_t outputs) {
  Product product{rows, columns, outputs, Arithmetic::kFp16};
  product.weight_bytes = 0.5;
  return product;
}

TEST(Cost, V1_MoreWorkNeverTakesLessTimeThanLess) {
  for (const char* phone : {"8gen3", "8gen2", "8plusgen1", "8elite"}) {
    for (const char* stack : {"llm.npu", "heterollm", "shadowattn", "sd.npu", "powerinfer-2"}) {
      const CostModel model = model_of(phone, stack);
      for (const Processor processor : {Processor::kCpu, Processor::kGpu, Processor::kNpu}) {
        for (const Arithmetic arithmetic : {Arithmetic::kInt8, Arithmetic::kFp16}) {
          double before = 0.0;
          for (int64_t rows = 1; rows <= 2048; rows += rows < 80 ? 1 : 7) {
            const double now = us(model, processor, Product{rows, 2048, 5504, arithmetic});
            EXPECT_GE(now, before * (1 - 1e-9)) << phone << ' ' << stack << " rows " << rows;
            before = now;
          }
          before = 0.0;
          for (int64_t outputs = 64; outputs <= 16384; outputs += 192) {
            const double now = us(model, processor, Product{256, 4096, outputs, arithmetic});
            EXPECT_GE(now, before * (1 - 1e-9)) << phone << ' ' << stack << " outputs " << outputs;
            before = now;
          }
        }
      }
    }
  }
}

TEST(Cost, H1_TheNpuIsFlatWithinAStage) {
  const CostModel model = model_of("8gen3", "heterollm");
  const double one = model.product(Processor::kNpu, half(1, 4096, 14336)).compute_us;
  EXPECT_EQ(model.product(Processor::kNpu, half(32, 4096, 14336)).compute_us, one);
  EXPECT_NEAR(model.product(Processor::kNpu, half(33, 4096, 14336)).compute_us, 2 * one, 1e-6);
  EXPECT_NEAR(model.product(Processor::kNpu, half(64, 4096, 14336)).compute_us, 2 * one, 1e-6);
}

TEST(Cost, H1_TheGpuIsLinearThenFlat) {
  const CostModel model = model_of("8gen3", "heterollm");
  const auto tflops = [&](int64_t rows) {
    return 2e-6 * static_cast<double>(rows * 4096 * 4096) /
           us(model, Processor::kGpu, half(rows, 4096, 4096));
  };
  EXPECT_NEAR(tflops(4) / tflops(2), 2.0, 0.1);
  EXPECT_NEAR(tflops(2048) / tflops(1024), 1.0, 0.05);
}

TEST(Cost, H1_AWeightFarLargerThanTheInputBringsTheNpuToTheLevelOfTheGpu) {
  plan::Stack stack = plan::read_stack(kPhones + "stacks/heterollm.json");
  stack.npu.is_permuted.value = 0.0;
  const CostModel model(plan::read_phone(kPhones + "8gen3.json"), stack);
  const Product product = half(64, 4096, 14336);
  const double ratio = us(model, Processor::kGpu, product) / us(model, Processor::kNpu, product);
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2.0);
}

TEST(Cost, ACallOfTheCpuIsStartedAndThenComputesOrReads) {
  const CostModel model = model_of("8gen3", "llm.npu");
  const auto& cpu = model.stack().cpu;
  const double launch_us = cpu.launch_us;
  // With many rows, computing takes the time: twice the rows take twice the time behind the start.
  const double many = us(model, Processor::kCpu, Product{128, 2048, 2048});
  const double more = us(model, Processor::kCpu, Product{256, 2048, 2048});
  EXPECT_NEAR(more - launch_us, 2.0 * (many - launch_us), 1e-6);
  EXPECT_NEAR(many - launch_us, 2.0 * 128 * 2048 * 2048 / (cpu.int8_gops * 1e3), 1e-6);
  // With one row, reading takes the time.
  const double one = us(model, Processor::kCpu, Product{1, 2048, 2048});
  EXPECT_NEAR(one - launch_us, 2048.0 * 2048 / (model.read_gb_s(Processor::kCpu) * 1e3), 5.0);
}

TEST(Cost, OneRowOnAnotherChipGoesByItsMemory) {
  const auto reading_us = [](const char* phone) {
    const CostModel model = model_of(phone, "llm.npu");
    return us(model, Processor::kCpu, Product{1, 4096, 11008}) - model.stack().cpu.launch_us;
  };
  EXPECT_NEAR(reading_us("8gen3") / reading_us("8gen2"), 0.984, 0.001);
}

TEST(Cost, TheCpuIsFastestForOneRowAndTheNpuForMany) {
  const CostModel model = model_of("8gen3", "powerinfer-2");
  const auto cpu_sparse = [&](double share) {
    // The CPU computes only this share of the weight's rows. Dense lanes cannot skip any.
    return us(model, Processor::kCpu,
              Product{1, 4096, static_cast<int64_t>(14336 * share), Arithmetic::kInt8, 0.5});
  };
  const Product one{1, 4096, 14336, Arithmetic::kInt8, 0.5};
  const Product many{256, 4096, 14336, Arithmetic::kInt8, 0.5};
  EXPECT_LT(cpu_sparse(0.5), us(model, Processor::kNpu, one));
  EXPECT_LT(cpu_sparse(0.5), us(model, Processor::kGpu, one));
  EXPECT_LT(us(model, Processor::kNpu, many), us(model, Processor::kCpu, many));
  EXPECT_LT(us(model, Processor::kNpu, many), us(model, Processor::kGpu, many));
  EXPECT_GT(us(model, Processor::kGpu, one), us(model, Processor::kCpu, one));
}

TEST(Cost, N8_ASquareShapeCostsLessAndScalesPerGroupMore) {
  const CostModel model = model_of("8gen3", "llm.npu");
  Product product{1024, 2048, 2048};
  const double thin = us(model, Processor::kNpu, product);
  product.has_square_shape = true;
  EXPECT_LT(1.2 * us(model, Processor::kNpu, product), thin);
  product.has_square_shape = false;
  product.has_group_scales = true;
  EXPECT_GT(us(model, Processor::kNpu, product), 8 * thin);
  // Square shapes speed up multiplying. Where starting and weights take the time, they gain little.
  Product few{32, 2048, 2048};
  const double few_thin = us(model, Processor::kNpu, few);
  few.has_square_shape = true;
  EXPECT_GT(1.2 * us(model, Processor::kNpu, few), few_thin);
}

TEST(Cost, AnIntegerProductOfTheNpuIsStartedLoadsItsWeightsAndMultiplies) {
  const CostModel model = model_of("8gen3", "llm.npu");
  const auto& npu = model.stack().npu;
  const double weights_us = 2048.0 * 8192 / (npu.int8_weights_g_s * 1e3);
  const double ops_us = 2.0 * 64 * 2048 * 8192 / (npu.int8_tops * 1e6);
  EXPECT_NEAR(us(model, Processor::kNpu, Product{64, 2048, 8192}),
              npu.launch_us + weights_us + ops_us, 1e-6);
  // The rate lies between what Table 3 rules out and what another paper reached.
  ASSERT_TRUE(npu.int8_tops.range.has_value());
  EXPECT_LT(npu.int8_tops.range->first, npu.int8_tops);
}

TEST(Cost, D1_WeightsThatAreReadFirstHideBehindNoRow) {
  const CostModel model = model_of("8gen3", "sd.npu");
  ASSERT_GE(model.stack().npu.reads_first, 0.5);
  const auto us_of = [&](int64_t rows) {
    return us(model, Processor::kNpu, Product{rows, 1536, 8960});
  };
  const double read_us = 1536.0 * 8960.0 / (model.read_gb_s(Processor::kNpu) * 1e3);
  const double row_us = us_of(33) - us_of(32);
  EXPECT_NEAR(us_of(1), model.stack().npu.launch_us + read_us + row_us, 1e-6);
  EXPECT_NEAR(us_of(64), us_of(1) + 63 * row_us, 1e-6);
}

TEST(Cost, D3AStackSaysHowFastThe8Gen3IsBesideItsPart) {
  CostModel model = model_of("8gen3", "sd.npu");
  plan::Stack twice = model.stack();
  twice.npu.rate_8gen3.value *= 2.0;
  const CostModel faster(model.phone(), twice);
  const auto row_us = [](const CostModel& of) {
    return us(of, Processor::kNpu, Product{33, 1536, 8960}) -
           us(of, Processor::kNpu, Product{32, 1536, 8960});
  };
  EXPECT_NEAR(row_us(faster), 0.5 * row_us(model), 1e-6);
}

TEST(Cost, MoreCoresAreFaster) {
  const CostModel model = model_of("8gen3", "llm.npu");
  const Product product{256, 2048, 5504};
  const double one = model.product(Cores{0, 1, 0}, product).compute_us;
  const double five = model.product(Cores{0, 5, 0}, product).compute_us;
  const double small = model.product(Cores{0, 0, 1}, product).compute_us;
  EXPECT_GT(one, 2 * five);
  EXPECT_GT(small, one);
}

TEST(Cost, FlashLikesLargeBlocksNearRangesAndOneLargeCore) {
  const CostModel model = model_of("8gen3", "powerinfer-2");
  FlashRead read;
  const double base = model.flash_us(read);
  read.request_bytes = 512 << 10;
  EXPECT_LT(model.flash_us(read), 128 * base);
  read = {};
  read.range_bytes = int64_t{1} << 30;
  EXPECT_GT(model.flash_us(read), base);
  read = {};
  read.core_ghz = 2.2;
  EXPECT_GT(model.flash_us(read), base);
  read = {};
  read.has_several_cores = true;
  EXPECT_GT(model.flash_us(read), base);
  read = {};
  read.is_alone = true;
  EXPECT_GT(model.flash_us(read), base);
  read = {};
  read.n_requests = 10;
  EXPECT_DOUBLE_EQ(model.flash_us(read), 10 * base);
}

TEST(Cost, H8_AFastHandoverIsFarBelowAnOrdinaryOne) {
  const CostModel model = model_of("8gen3", "heterollm");
  for (const plan::Phase phase : {plan::Phase::kStep, plan::Phase::kPrompt}) {
    for (const auto& [from, to] : {std::pair(Processor::kGpu, Processor::kNpu),
                                   std::pair(Processor::kNpu, Processor::kGpu)}) {
      EXPECT_LT(model.handover_us(true, from, to, phase),
                0.2 * model.handover_us(false, from, to, phase));
    }
  }
}

// Each constant of handovers changes what one of them takes, in time or in the polling of a core.
TEST(Cost, H8_EachConstantOfHandoversCounts) {
  const auto figures = [](const char* constant, double factor) {
    CostModel model = model_of("8gen3", "heterollm");
    plan::Stack stack = model.stack();
    for (const plan::Field& field : stack.fields()) {
      if (std::string_view(field.name) == constant) {
        field.constant->value = factor * (field.constant->value + 1.0);
      }
    }
    const CostModel changed(model.phone(), stack);
    std::vector<double> all;
    for (const bool is_fast : {false, true}) {
      all.push_back(changed.polling_us(is_fast));
      all.push_back(changed.restart_us(is_fast, Processor::kGpu));
      for (const plan::Phase phase : {plan::Phase::kStep, plan::Phase::kPrompt}) {
        for (const auto& [from, to] : {std::pair(Processor::kGpu, Processor::kNpu),
                                       std::pair(Processor::kNpu, Processor::kGpu)}) {
          all.push_back(changed.handover_us(is_fast, from, to, phase));
        }
      }
    }
    return all;
  };
  for (const char* constant :
       {"handover.sync_us", "gpu.copy_us", "gpu.restart_us", "handover.sleep_us",
        "handover.poll_us", "handover.npu_first_us", "handover.gpu_first_us"}) {
    EXPECT_NE(figures(constant, 1.0), figures(constant, 2.0)) << constant;
  }
}

TEST(Cost, H8_InPromptsTheGpuIsSubmittedWhenTheNpuHasEnded) {
  const CostModel model = model_of("8gen3", "heterollm");
  const auto to_gpu = [&](plan::Phase phase) {
    return model.handover_us(true, Processor::kNpu, Processor::kGpu, phase);
  };
  const double submit_us = model.stack().handover.npu_first_us;
  EXPECT_DOUBLE_EQ(to_gpu(plan::Phase::kPrompt) - to_gpu(plan::Phase::kStep), submit_us);
  EXPECT_DOUBLE_EQ(to_gpu(plan::Phase::kStep),
                   model.handover_us(true, Processor::kGpu, Processor::kNpu, plan::Phase::kPrompt));
}

TEST(Cost, TheNpuOfHeteroLlmHasItsFloatsForPromptsOnly) {
  const CostModel model = model_of("8gen3", "heterollm");
  EXPECT_EQ(model.arithmetic(Processor::kNpu, plan::Phase::kPrompt), Arithmetic::kFp16);
  EXPECT_EQ(model.arithmetic(Processor::kNpu, plan::Phase::kStep), Arithmetic::kInt8);
  EXPECT_EQ(model.arithmetic(Processor::kGpu, plan::Phase::kStep), Arithmetic::kFp16);
}

TEST(Cost, OlderPhonesAreSlower) {
  const Product product{256, 2048, 5504};
  for (const Processor processor : {Processor::kCpu, Processor::kGpu, Processor::kNpu}) {
    const double old = us(model_of("8plusgen1", "llm.npu"), processor, product);
    const double middle = us(model_of("8gen2", "llm.npu"), processor, product);
    const double fitted = us(model_of("8gen3", "llm.npu"), processor, product);
    const double newer = us(model_of("8elite", "llm.npu"), processor, product);
    EXPECT_GT(old, middle);
    EXPECT_GT(middle, fitted);
    EXPECT_GT(fitted, newer);
  }
}

// The parts of sparse attention on a core take together as long as the kernel that was measured,
// and selection reads every score.
TEST(Cost, S1S2PartsOfSparseAttentionAreTheWholeKernel) {
  CostModel model = model_of("8gen3", "shadowattn");
  model.use_cores({0, 1, 0});
  const Processor cpu = Processor::kCpu;
  const double full = model.attention(cpu, 256, 1000, 4, 64).compute_us;
  for (const double share : {0.1, 0.2, 1.0}) {
    const double parts = model.estimate(cpu, 256, 1000, 4, 64).compute_us +
                         model.select(cpu, 256, 1000, 4, 64).compute_us +
                         model.exact(cpu, 256, 1000, 4, 64, share).compute_us;
    EXPECT_NEAR(parts, full * model.sparse_attention_share(share), 1e-6 * full);
    // Whole blocks need not be gathered, and only few estimates are computed for them.
    EXPECT_NEAR(model.exact(cpu, 256, 1000, 4, 64, share, 64).compute_us, share * full,
                1e-6 * full);
  }
  EXPECT_EQ(model.select(cpu, 256, 1000, 4, 64).bytes, 256.0 * 1000 * 4 * 2);
  EXPECT_LT(model.estimate(cpu, 256, 1000, 4, 64, 64).compute_us, 1e-3 * full);
}

TEST(Cost, S6FewerCoresHaveTheirPartOfRateBandwidthAndPower) {
  const CostModel all = model_of("8gen3", "shadowattn");
  CostModel one = all;
  one.use_cores({0, 1, 0});
  const auto& cpu = all.phone().cpu;
  const double part = cpu.middle.clock_ghz * cpu.middle.vector_pipes /
                      (cpu.prime.count * cpu.prime.clock_ghz * cpu.prime.vector_pipes +
                       cpu.middle.count * cpu.middle.clock_ghz * cpu.middle.vector_pipes);
  const Processor processor = Processor::kCpu;
  EXPECT_NEAR(one.attention(processor, 64, 512, 8, 64).compute_us * part,
              all.attention(processor, 64, 512, 8, 64).compute_us, 1e-6);
  EXPECT_NEAR(one.read_gb_s(processor), part * all.read_gb_s(processor), 1e-9);
  EXPECT_NEAR(one.power_w(processor), part * all.power_w(processor), 1e-9);
  EXPECT_NEAR(one.wait_w(processor), part * all.wait_w(processor), 1e-9);
  const Product product{1, 4096, 4096};
  EXPECT_NEAR(one.product(processor, product).compute_us,
              all.product(Cores{0, 1, 0}, product).compute_us, 1e-9);
  EXPECT_EQ(one.read_gb_s(Processor::kNpu), all.read_gb_s(Processor::kNpu));
  EXPECT_THROW(one.use_cores({2, 0, 0}), Error);
  EXPECT_THROW(one.use_cores({0, 0, 0}), Error);
}

TEST(Cost, V1OtherProgramsTakeTheirPartOfTheBus) {
  CostModel model = model_of("8gen3", "shadowattn");
  const double whole = model.bus({Processor::kCpu}).total_gb_s;
  model.share_bus(10.0);
  EXPECT_NEAR(model.bus({Processor::kCpu}).total_gb_s, whole - 10.0, 1e-9);
  EXPECT_THROW(model.share_bus(whole), Error);
  EXPECT_THROW(model.share_bus(-1.0), Error);
  EXPECT_THROW(model.share_bus(std::nan("")), Error);
}

}  // namespace
}  // namespace troika::lanes
