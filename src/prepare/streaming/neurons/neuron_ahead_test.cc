// Neurons of the next layer are read while the disk is free (P2, P6): which ones, what they cost,
// and that no value depends on it.
#include "prepare/streaming/neurons/neuron_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/random.h"
#include "prepare/streaming/neurons/neuron_stream_test_support.h"
#include "tests/support/temp_folder.h"

namespace troika::prepare {
namespace {

using namespace neuron_test;

class NeuronsAhead : public NeuronStreamTest {
 protected:
  NeuronsAhead() { path = folder_.file("bundles.bin"); }

  // Says that blocks fire in the order 0, 2, 1, so that places at the start go to 0 and 2.
  static weights::NeuronHeat heat_of_the_first_and_last() {
    weights::NeuronHeat counted(kFfns, kNeurons);
    for (uint64_t ffn = 0; ffn < kFfns; ++ffn) {
      const uint32_t least = ffn == 0 ? 2000 : ffn == 2 ? 1000 : 0;
      for (uint32_t i = 0; i < kNeurons; ++i) {
        counted.counts(ffn)[i] = least + static_cast<uint32_t>(random_bits(20 + ffn, i) % 900);
      }
    }
    counted.set_tokens(3000);
    return counted;
  }

 private:
  test::TempFolder folder_;
};

// With 1,500 more places of 4 KB there is memory to read some 80 neurons of a layer ahead.
TEST_P(NeuronsAhead, P2WhereMostNeuronsLiveTheNextLayersComeBeforeTheyAreAskedFor) {
  const RandomFfns model(Type::kF16, 1024);
  const auto stream = stream_over(model, 1500);
  const std::vector<uint32_t> all = random_neurons(0, 2.0);
  EXPECT_EQ(use(*stream, model, 0, all, 2), 0);
  const NeuronAhead::Counters first = stream->counters().ahead;
  ASSERT_GT(first.n_neurons, 20);
  EXPECT_EQ(first.read_bytes, static_cast<uint64_t>(first.n_neurons) * 4096);
  EXPECT_EQ(first.n_used, 0);
  EXPECT_EQ(use(*stream, model, 1, all, 2), 0);
  const NeuronAhead::Counters second = stream->counters().ahead;
  EXPECT_EQ(second.n_used, first.n_neurons);
  EXPECT_EQ(second.n_neurons, 2 * first.n_neurons);
  // Nothing was read twice: each page of the two layers came once, and some of the third.
  EXPECT_EQ(stream->counters().read_bytes,
            (2 * uint64_t{kNeurons} + static_cast<uint64_t>(first.n_neurons)) * 4096);
  EXPECT_EQ(use(*stream, model, 2, {}), 0);
  EXPECT_EQ(stream->counters().ahead.n_for_nothing(), first.n_neurons);
  EXPECT_EQ(stream->problem(), "");
}

TEST_P(NeuronsAhead, P6AsManyOfTheHottestComeAsTheLayerBeforeNeeded) {
  const RandomFfns model(Type::kF16, 1024);
  const std::vector<uint32_t> live = random_neurons(3, 0.1);
  {
    const auto stream = stream_over(model, 1500);
    EXPECT_EQ(use(*stream, model, 0, live), 0);
    EXPECT_EQ(stream->counters().ahead.n_neurons, 0) << "nobody knows which are hot";
  }
  const weights::NeuronHeat counted = heat_of_the_first_and_last();
  heat = &counted;
  const auto stream = stream_over(model, 1500);
  const auto n_of_segment = static_cast<int64_t>((live.size() + 2) / 3);
  EXPECT_EQ(use(*stream, model, 0, live), 0);
  // The first segment's come at once, the second's when these are there.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (stream->counters().ahead.n_neurons <= n_of_segment &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int64_t n_ahead = stream->counters().ahead.n_neurons;
  ASSERT_GT(n_ahead, n_of_segment);
  ASSERT_LE(n_ahead, 3 * n_of_segment);
  std::vector<uint32_t> hottest;
  for (int segment = 0; segment < weights::n_segments(kNeurons); ++segment) {
    const auto order = stream->file().tables().order(1).subspan(size_t(segment) * kSegmentNeurons);
    hottest.insert(hottest.end(), order.begin(), order.begin() + n_of_segment);
  }
  std::sort(hottest.begin(), hottest.end());
  EXPECT_EQ(use(*stream, model, 1, hottest, 2), 0);
  EXPECT_EQ(stream->counters().ahead.n_used, n_ahead);
  EXPECT_EQ(stream->problem(), "");
}

TEST_P(NeuronsAhead, P6ManyOrdersOfArrivalAndOfLayersAreTheBytesOfTheModel) {
  const RandomFfns model(Type::kQ4_0, 1024);
  const weights::NeuronHeat counted = heat_of_the_first_and_last();
  draw_orders();
  for (const bool knows : {true, false}) {
    heat = knows ? &counted : nullptr;
    n_out_of_order = 0;
    const auto stream = stream_over(model, 1200);
    ASSERT_GT(stream->ahead_bytes(), 0u);
    int ffn = 0;
    for (round = 0; round < 200; ++round) {
      // Sometimes a pass ends early, or several groups of tokens need the same layer.
      const uint64_t kind = random_bits(30, round) % 8;
      if (kind != 0) ffn = kind == 1 ? 0 : (ffn + 1) % kFfns;
      const double share = random_bits(31, round / 6) % 3 == 0 ? 0.8 : 0.1;
      const int n_workers = 1 + static_cast<int>(round % 2);
      ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, share), n_workers), 0) << round;
    }
    if (may_overtake(*stream)) {
      EXPECT_GT(n_out_of_order, 20);
    }
    const NeuronStream::Counters counters = stream->counters();
    EXPECT_GT(counters.ahead.n_used, 0);
    EXPECT_GT(counters.ahead.n_for_nothing(), 0);
    EXPECT_LT(counters.ahead.read_bytes, counters.read_bytes);
    EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
    EXPECT_EQ(stream->problem(), "");
  }
}

TEST_P(NeuronsAhead, P10WhatIsReadAheadTakesItsMemoryFromTheBudget) {
  const RandomFfns model(Type::kF16, 1024);
  const BundleMaker maker(model.ffns, *model.store, 1);
  const auto stream = stream_over(model, 1500);  // expects that the budget is held
  const auto n_slots = static_cast<uint64_t>(stream->cache().n_slots());
  ASSERT_GT(stream->ahead_bytes(), 0u);
  EXPECT_LE(n_slots * maker.place_bytes() + stream->ahead_bytes(), stream->bytes());
  EXPECT_LE(8 * stream->ahead_bytes(), 1500 * (maker.place_bytes() + 8));
  const uint64_t least_slots = 2 * kSegmentNeurons;
  EXPECT_EQ(stream_over(model, 0)->ahead_bytes(), 0u);
  EXPECT_GE(static_cast<uint64_t>(stream_over(model, 0)->cache().n_slots()), least_slots);
  EXPECT_EQ(stream_over(model, 5000)->ahead_bytes(), 0u) << "all neurons have places";
}

TEST_P(NeuronsAhead, P10WhatADiskCannotReadAheadIsStillRight) {
  const RandomFfns model(Type::kF16, 1024);
  std::atomic<bool> is_broken = false;
  spoil = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    return is_broken && read.offset / 4096 % 5 == 0 ? -EIO : returned;
  };
  const auto stream = stream_over(model, 1500);
  const std::vector<uint32_t> most = random_neurons(6, 0.6);
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(use(*stream, model, i % kFfns, most, 2), 0) << i;
    is_broken = i % 3 != 2;
  }
  EXPECT_GT(stream->counters().ahead.n_neurons, 0);
  EXPECT_NE(stream->problem().find("cannot be read"), std::string::npos) << stream->problem();
}

INSTANTIATE_TEST_SUITE_P(Ways, NeuronsAhead,
                         testing::Values(Way{true, ReadPipeline::kCluster, true},
                                         Way{false, ReadPipeline::kCluster, true},
                                         Way{true, ReadPipeline::kMatrix, true}),
                         name_of);

}  // namespace
}  // namespace troika::prepare
