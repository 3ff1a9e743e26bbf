#include "lanes/virtual/neurons/neuron_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

const std::string kPhonesOfNeurons = test::repository_file("phones/");

CostModel powerinfer2() {
  return {plan::read_phone(kPhonesOfNeurons + "8gen3.json"),
          plan::read_stack(kPhonesOfNeurons + "stacks/powerinfer-2.json")};
}

NeuronShape small_shape() {
  NeuronShape shape;
  shape.n_layers = 4;
  shape.n_neurons = 4096;
  shape.width = 4096;
  shape.weight_bytes = 18.0 / 32.0;
  shape.rank = 1024;
  return shape;
}

plan::NeuronPlan plan_of(const NeuronShape& shape, double share, double overlap) {
  plan::NeuronPlan plan;
  plan.system = plan::NeuronSystem::kPipeline;
  plan.statistics.overlap = overlap;
  plan.cache_bytes = static_cast<uint64_t>(share * static_cast<double>(shape.cacheable_bytes()));
  return plan;
}

// What P §2.2 and §7.2.2 print about batches (pf024, pf028) follows from the law.
TEST(NeuronActivity, P8TheLawGivesWhatThePaperSaysOfBatches) {
  const std::vector<double> shares = plan::firing_shares({}, 14336);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  EXPECT_NEAR(sum / 14336, 0.15, 1e-4);
  const auto share_above = [&](double often, int batch) {
    double n = 0;
    for (const double share : shares) n += 1.0 - std::pow(1.0 - share, batch) > often ? 1 : 0;
    return n / 14336;
  };
  EXPECT_LT(share_above(0.95, 1), 0.02);
  EXPECT_NEAR(share_above(0.9, 32), 0.75, 0.03);
  double all = 0.0;
  for (const double share : shares) all += 1.0 - std::pow(1.0 - share, 128);
  EXPECT_GT(all / 14336, 0.999);
}

TEST(NeuronActivity, TokensOverlapAsStated) {
  for (const double overlap : {0.0, 0.5, 0.9}) {
    plan::NeuronStatistics statistics;
    statistics.overlap = overlap;
    NeuronActivity activity(statistics, 1, 2000);
    double n = 0, n_again = 0, expected = 0;
    std::vector<uint8_t> before(2000, 0);
    for (int token = 0; token < 400; ++token) {
      const auto fires = activity.advance(0, 0);
      for (size_t i = 0; i < fires.size() && token > 0; ++i) {
        if (before[i] == 0) continue;
        n += 1;
        n_again += fires[i];
        expected += overlap + (1.0 - overlap) * activity.shares()[i];
      }
      before.assign(fires.begin(), fires.end());
    }
    EXPECT_NEAR(n_again / n, expected / n, 0.01) << overlap;
  }
}

TEST(NeuronWork, P5MissesFallWithMemoryAndTheBudgetHolds) {
  const CostModel model = powerinfer2();
  const NeuronShape shape = small_shape();
  double before = 1.1;  // more than any rate of misses, so that the first share of memory passes
  for (const double share : {0.02, 0.25, 0.5, 0.75}) {
    const plan::NeuronPlan plan = plan_of(shape, share, 0.7);
    NeuronWork work(model, shape, plan);
    work.warm(30);
    lanes::Run run;
    run.n_tokens = 1;
    for (int token = 0; token < 20; ++token) {
      for (int block = 0; block < shape.n_layers; ++block) {
        work.cost(NeuronStage::kPredict, block, -1, run);
        work.cost(NeuronStage::kMerge, block, -1, run);
      }
    }
    EXPECT_EQ(work.counters().n_passes, 20);
    EXPECT_LT(work.counters().miss_rate(), before);
    EXPECT_LE(work.most_resident_bytes(), plan.cache_bytes);
    before = work.counters().miss_rate();
  }
  EXPECT_LT(before, 0.08);
}

TEST(NeuronWork, P7RequestsAreWhatThePlanSays) {
  const CostModel model = powerinfer2();
  const NeuronShape shape = small_shape();
  EXPECT_EQ(shape.bundle_bytes(), 8192);
  EXPECT_EQ(shape.row_read_bytes(), 4096);
  EXPECT_EQ(shape.neuron_bytes(), 3u * 2048);
  plan::NeuronPlan plan = plan_of(shape, 0.25, 0.5);
  NeuronWork once(model, shape, plan);
  plan.first_read_bytes = plan.second_read_bytes = 4096;
  NeuronWork twice(model, shape, plan);
  lanes::Run run;
  run.n_tokens = 1;
  const auto read = [&](NeuronWork& work) {
    work.cost(NeuronStage::kPredict, 0, -1, run);
    for (int segment = 0; segment < work.n_segments(1); ++segment) {
      work.cost(NeuronStage::kGateRead, 0, segment, run);
      work.cost(NeuronStage::kUpRead, 0, segment, run);
      work.cost(NeuronStage::kDownRead, 0, segment, run);
    }
    work.cost(NeuronStage::kMerge, 0, -1, run);
    return work.counters();
  };
  const NeuronCounters one = read(once), two = read(twice);
  EXPECT_GT(two.n_requests, one.n_requests);
  EXPECT_LT(two.read_bytes, one.read_bytes);
  EXPECT_DOUBLE_EQ(one.read_bytes, 8192.0 * static_cast<double>(one.n_requests));
  // The second read of a bundle brings up and down; rows that lie apart are read one by one.
  EXPECT_LE(two.n_requests, 2 * one.n_requests);
  plan.system = plan::NeuronSystem::kPlain;
  NeuronWork by_rows(model, shape, plan);
  EXPECT_GT(read(by_rows).n_requests, 2 * one.n_requests);
}

// Hot clusters of another number of sequences need another graph, also where a router says before
// that which experts are used.
TEST(NeuronWork, P4AnotherNumberOfSequencesReadsAnotherGraph) {
  const CostModel model = powerinfer2();
  for (const int n_experts : {1, 4}) {
    NeuronShape shape = small_shape();
    shape.n_layers = 1;
    shape.n_experts = n_experts;
    shape.n_experts_used = 1;
    plan::NeuronPlan plan = plan_of(shape, 1.0, 0.5);
    plan.system = plan::NeuronSystem::kXpu;
    plan.hot = {{1, 512, 0}, {2, 1024, 0}};
    NeuronWork work(model, shape, plan);
    double hot_bytes = 0.0;  // those that the last pass multiplied
    const auto read_bytes = [&](int n_rows) {
      lanes::Run run;
      run.n_tokens = n_rows;
      double bytes = work.reads_ahead() ? work.cost(NeuronStage::kHotRead, 0, -1, run).bytes : 0.0;
      work.cost(NeuronStage::kPredict, 0, -1, run);
      if (!work.reads_ahead()) bytes = work.cost(NeuronStage::kHotRead, 0, -1, run).bytes;
      hot_bytes = work.cost(NeuronStage::kHot, 0, -1, run).bytes;
      work.cost(NeuronStage::kMerge, 0, -1, run);
      return bytes;
    };
    EXPECT_EQ(read_bytes(1), 0.0) << n_experts;
    const double of_one = hot_bytes;
    // The graph is read, and hot neurons that one sequence leaves to the cores.
    EXPECT_GE(read_bytes(2), model.stack().graph.size_kb * 1024 - 1e-6) << n_experts;
    EXPECT_GT(hot_bytes, 1.9 * of_one) << n_experts;
    EXPECT_EQ(read_bytes(2), 0.0) << n_experts;
    EXPECT_NEAR(read_bytes(1), model.stack().graph.size_kb * 1024, 1e-6) << n_experts;
    EXPECT_EQ(hot_bytes, of_one) << n_experts;
  }
}

// Neurons are computed by the cores that are used, less the one that asks for reads.
TEST(NeuronWork, P6NeuronsAreComputedByTheCoresThatAreUsed) {
  const NeuronShape shape = small_shape();
  const plan::NeuronPlan plan = plan_of(shape, 0.5, 0.7);
  plan::NeuronPlan in_turn = plan;
  in_turn.pipeline = plan::NeuronPipeline::kNone;
  lanes::Run run;
  run.n_tokens = 1;
  Product product{1, shape.width, shape.rank};
  product.weight_bytes = shape.weight_bytes;
  Product second{1, shape.rank, shape.n_neurons};
  second.weight_bytes = shape.weight_bytes;
  for (const auto& [used, computing] :
       {std::pair(Cores{1, 5, 0}, Cores{0, 5, 0}), std::pair(Cores{0, 4, 0}, Cores{0, 3, 0}),
        std::pair(Cores{0, 1, 0}, Cores{0, 1, 0})}) {
    CostModel model = powerinfer2();
    model.use_cores(used);
    const auto predict_us = [&](const plan::NeuronPlan& with) {
      NeuronWork work(model, shape, with);
      return work.cost(NeuronStage::kPredict, 0, -1, run).compute_us;
    };
    const auto product_us = [&](const Cores& cores) {
      return model.product(cores, product).compute_us + model.product(cores, second).compute_us;
    };
    EXPECT_NEAR(predict_us(plan), product_us(computing), 1e-6);
    EXPECT_NEAR(NeuronWork(model, shape, plan).cost(NeuronStage::kPredict, 0, -1, run).power_share,
                model.core_w(computing) / model.core_w(used), 1e-12);
    EXPECT_NEAR(predict_us(in_turn), product_us(used), 1e-6);
    // A slower core asks more slowly.
    FlashRead read;
    read.request_bytes = 8192;
    read.range_bytes = static_cast<int64_t>(shape.n_groups()) * shape.n_neurons * 8192;
    read.core_ghz = used.prime > 0 ? model.phone().cpu.prime.clock_ghz.value
                                   : model.phone().cpu.middle.clock_ghz.value;
    EXPECT_NEAR(NeuronWork(model, shape, plan).read_us(8192), model.flash_us(read), 1e-9);
  }
}

// Whatever is read in a row is asked for by the same core, too.
TEST(NeuronWork, P6ReadsInARowAreAskedForByTheCoreThatReads) {
  const NeuronShape shape = small_shape();
  const plan::NeuronPlan plan = plan_of(shape, 0.5, 0.7);
  const auto read_us = [&](const Cores& used) {
    CostModel model = powerinfer2();
    model.use_cores(used);
    NeuronWork work(model, shape, plan);
    lanes::Run run;
    run.n_tokens = 128;
    return work.cost(NeuronStage::kWholeRead, 0, -1, run).compute_us;
  };
  EXPECT_GT(read_us(Cores{0, 2, 0}), read_us(Cores{1, 1, 0}));
}

// Returns how many bytes of a mapped file a block reads, where that much memory is free for it.
double mapped_bytes(const NeuronShape& shape, double room, int n_rows) {
  const CostModel model = powerinfer2();
  plan::NeuronPlan plan;
  plan.system = plan::NeuronSystem::kMap;
  plan.statistics.overlap = 0.5;
  plan.other_bytes = shape.model_bytes - shape.cacheable_bytes() - shape.scale_bytes() + 100;
  plan.budget_bytes = static_cast<uint64_t>(room) + 100;
  NeuronWork work(model, shape, plan);
  lanes::Run run;
  run.n_tokens = n_rows;
  const TaskCost cost = work.cost(NeuronStage::kPages, 0, -1, run);
  EXPECT_EQ(cost.compute_us > 0.0, cost.bytes > 0.0);
  return cost.bytes;
}

// A mapped file of a mixture is read for the experts that a token takes, and not for those that
// stayed in memory; of another model that does not fit all is read each time.
TEST(NeuronWork, P13AMappedFileIsReadForWhatAPassTouches) {
  NeuronShape shape = small_shape();
  const auto ffn = [&] {
    return static_cast<double>(shape.cacheable_bytes() + shape.scale_bytes());
  };
  shape.model_bytes = static_cast<uint64_t>(1.25 * ffn());
  auto model = static_cast<double>(shape.model_bytes);
  EXPECT_DOUBLE_EQ(mapped_bytes(shape, 0.9 * model, 1), model / 4);
  EXPECT_EQ(mapped_bytes(shape, model, 1), 0.0);

  shape.n_experts = 8;
  shape.n_experts_used = 2;
  shape.model_bytes = static_cast<uint64_t>(1.25 * ffn());
  model = static_cast<double>(shape.model_bytes);
  const double always = model - ffn();
  // A token takes a quarter of the experts; what it touches does not fit.
  EXPECT_NEAR(mapped_bytes(shape, always, 1), (always + ffn() / 4) / 4, 1.0);
  // Half of the experts fit. Half of the tokens take the experts of the token before.
  EXPECT_NEAR(mapped_bytes(shape, always + ffn() / 2, 1), ffn() / 4 * 0.25 / 4, 1.0);
  // A prompt takes all of them.
  EXPECT_NEAR(mapped_bytes(shape, always + ffn() / 2, 256), model / 4, 1.0);
  EXPECT_EQ(mapped_bytes(shape, model, 1), 0.0);
}

}  // namespace
}  // namespace troika::lanes
