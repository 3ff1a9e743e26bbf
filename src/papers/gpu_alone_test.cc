#include "papers/gpu_alone.h"

#include <gtest/gtest.h>

#include "papers/hetero/hetero_runs.h"
#include "papers/power/power_runs.h"
#include "plan/phones/phone.h"
#include "tests/support/repository.h"

namespace troika::papers {
namespace {

using lanes::Processor;

TEST(GpuAlone, OnlyAGpuWithoutCompanyHasAFullQueue) {
  const auto depth = [](std::vector<Processor> processors) {
    prepare::Options options;
    options.phone.processors = std::move(processors);
    fill_queue_of_gpu_alone(&options);
    return options.phone.queue_depth;
  };
  EXPECT_GT(depth({Processor::kGpu}), 1000);
  for (const std::vector<Processor>& others : {std::vector<Processor>{Processor::kCpu},
                                               {Processor::kNpu},
                                               {},
                                               {Processor::kGpu, Processor::kNpu}}) {
    EXPECT_EQ(depth(others), 1);
  }
}

// A step of a small model starts hundreds of kernels, which cost a fifth of it if each were
// submitted behind the end of the one before.
TEST(GpuAlone, AStepTakesWhatItReads) {
  const std::string phones = test::repository_file("phones");
  const plan::Phone phone = plan::read_phone(phones + "/8gen3.json");
  HeteroRuns hetero(phones);
  const HeteroRun run{.model = "internlm-1.8b", .system = HeteroSystem::kGpu};
  const double n_blocks = 24, width = 2048, kv_width = 1024, hidden = 8192, n_vocab = 92544;
  const double weights =
      n_blocks * width * (2 * width + 2 * kv_width + 3 * hidden) + width * n_vocab;
  const double cache_bytes = n_blocks * 2 * kv_width * 2 * (run.n_prompt + 4);
  const double read_s = (weights * 18 / 32 + cache_bytes) / (1e9 * phone.memory.gpu_gb_s);
  EXPECT_NEAR(hetero.result(run).step_s, read_s, 0.03 * read_s);

  PowerRuns power(phones);
  const PowerRun mlc{.model = "bamboo-7b", .system = {}, .dense_on = Processor::kGpu};
  EXPECT_GT(power.options_of(mlc).phone.queue_depth, 1000);
}

}  // namespace
}  // namespace troika::papers
