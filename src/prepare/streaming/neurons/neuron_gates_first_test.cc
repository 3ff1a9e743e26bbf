// The gates of neurons are read before the rest (P7, K30). What fires has the bytes of the model,
// and of what does not fire the rest is never read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <vector>

#include "base/random.h"
#include "prepare/streaming/neurons/neuron_stream_test_support.h"
#include "tests/support/temp_folder.h"

namespace troika::prepare {
namespace {

using namespace neuron_test;

// Makes blocks whose gates are read with their neurons.
RandomFfns with_gates(Type type, int width, bool is_mixture = false) {
  return {type, width, is_mixture, true};
}

class GatesFirst : public NeuronStreamTest {
 protected:
  GatesFirst() {
    path = folder_.file("bundles.bin");
    gap_bytes = 0;  // neighbours share a request only where the gates of both fill it
  }
  std::vector<uint32_t> firing(const std::vector<uint32_t>& neurons) const {
    std::vector<uint32_t> live;
    for (const uint32_t neuron : neurons) {
      if (fires(neuron)) live.push_back(neuron);
    }
    return live;
  }

 private:
  test::TempFolder folder_;
};

TEST_P(GatesFirst, P7BytesAreThoseOfTheModelAtAnyBudget) {
  struct Form {
    Type type;
    int width;
    uint64_t first_bytes;
  };
  // The first page ends between two matrices, within up, and within up whose scales are in memory.
  // The last form has gates in no page of their own.
  for (const Form form : {Form{Type::kF16, 1024, 4096}, Form{Type::kF16, 1408, 4096},
                          Form{Type::kQ8_0, 2720, 4096}, Form{Type::kQ4_0, 256, 0}}) {
    const RandomFfns model = with_gates(form.type, form.width);
    for (const size_t n_more : {0, 2000}) {
      for (const uint64_t gap : {0, 4096}) {
        gap_bytes = gap;
        const auto stream = stream_over(model, n_more);
        ASSERT_EQ(stream->file().layout().shape().first_bytes, form.first_bytes);
        ASSERT_EQ(stream->reads_gates_first(), form.first_bytes > 0);
        for (uint64_t round = 0; round < 15; ++round) {
          const double share = round % 5 == 0 ? 1.0 : 0.02 + random_unit(7, round) * 0.4;
          const int ffn = static_cast<int>(round % kFfns);
          const int n_workers = 1 + static_cast<int>(round / 3 % 3);
          fires_as = round;
          firing_share = round % 7 == 0 ? 0.0 : random_unit(8, round) * 1.2;
          is_prompt = round % 6 == 5;
          ASSERT_EQ(use(*stream, model, ffn, random_neurons(round / 2, share), n_workers), 0);
          EXPECT_EQ(stream->problem(), "");
        }
        is_prompt = false;
        EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
        const NeuronStream::Counters counters = stream->counters();
        EXPECT_EQ(counters.n_gates > 0, form.first_bytes > 0);
        EXPECT_LE(counters.n_rests, counters.n_gates);
      }
    }
  }
}

TEST_P(GatesFirst, P7OfWhatDoesNotFireTheRestIsNeverRead) {
  const RandomFfns model = with_gates(Type::kF16, 1408);
  const auto stream = stream_over(model, 5000);
  // No two are neighbours, so that none brings the rest of another.
  std::vector<uint32_t> asked;
  for (uint32_t i = 0; i < kNeurons; i += 2 + static_cast<uint32_t>(random_bits(3, i) % 4)) {
    asked.push_back(i);
  }
  const auto live = static_cast<int64_t>(firing(asked).size());
  const auto n = static_cast<int64_t>(asked.size());
  ASSERT_GT(live, n / 4);
  ASSERT_LT(live, n - n / 4);
  EXPECT_EQ(use(*stream, model, 1, asked), 0);
  NeuronStream::Counters counters = stream->counters();
  EXPECT_EQ(counters.cache.misses, n);
  EXPECT_EQ(counters.n_gates, n);
  EXPECT_EQ(counters.n_rests, live);
  EXPECT_EQ(counters.n_reads, n + live);
  // A neuron takes three pages, and its gate one.
  EXPECT_EQ(counters.read_bytes, uint64_t{4096} * static_cast<uint64_t>(n + 2 * live));

  // All gates are in memory now, and so is the rest of what fired.
  EXPECT_EQ(use(*stream, model, 1, asked, 2), 0);
  EXPECT_EQ(stream->counters().n_reads, n + live);
  EXPECT_EQ(stream->counters().cache.hits, n);

  // What fires now for the first time lacks its rest, and nothing else.
  const std::vector<uint32_t> before = firing(asked);
  fires_as = 1;
  int64_t n_new = 0;
  for (const uint32_t neuron : firing(asked)) {
    n_new += std::ranges::binary_search(before, neuron) ? 0 : 1;
  }
  ASSERT_GT(n_new, 0);
  EXPECT_EQ(use(*stream, model, 1, asked, 2), 0);
  counters = stream->counters();
  EXPECT_EQ(counters.n_rests, live + n_new);
  EXPECT_EQ(counters.n_gates, n);
  EXPECT_EQ(counters.n_reads, n + live + n_new);
}

TEST_P(GatesFirst, P7ARequestOverNeighboursBringsTheirRest) {
  const RandomFfns model = with_gates(Type::kF16, 1024);
  gap_bytes = 4096;
  const auto stream = stream_over(model, 5000);
  // Between the gates of two neighbours lies the rest of the first one.
  EXPECT_EQ(use(*stream, model, 0, {10, 11, 12, 40}), 0);
  const NeuronStream::Counters counters = stream->counters();
  EXPECT_EQ(counters.n_gates, 2);  // those of 12 and 40
  EXPECT_EQ(counters.n_rests, static_cast<int64_t>(firing({12, 40}).size()));
}

TEST_P(GatesFirst, P7PromptsReadNeuronsAtOnce) {
  const RandomFfns model = with_gates(Type::kF16, 1024);
  const auto stream = stream_over(model, 0);
  is_prompt = true;
  EXPECT_EQ(use(*stream, model, 0, random_neurons(1, 0.3)), 0);
  EXPECT_EQ(stream->counters().n_gates, 0);
  is_prompt = false;
  EXPECT_EQ(use(*stream, model, 1, random_neurons(1, 0.3)), 0);
  EXPECT_GT(stream->counters().n_gates, 0);
}

TEST_P(GatesFirst, P7ExpertsOfABatchToo) {
  const RandomFfns model = with_gates(Type::kF16, 1024, true);
  for (const size_t n_more : {0, 300, 5000}) {
    const auto stream = stream_over(model, n_more);
    for (uint64_t round = 0; round < 40; ++round) {
      fires_as = round;
      const std::vector<Need> needs = random_experts(round);
      if (needs.empty()) continue;
      ASSERT_EQ(use(*stream, model, needs, 1 + int(round % 3)), 0) << round;
      EXPECT_EQ(stream->problem(), "");
    }
    EXPECT_GT(stream->counters().n_rests, 0);
  }
}

TEST_P(GatesFirst, P7HundredsOfOrdersOfArrival) {
  const RandomFfns model = with_gates(Type::kF16, 1024);
  draw_orders();
  const auto stream = stream_over(model, 100);
  for (round = 0; round < 300; ++round) {
    fires_as = round;
    const int ffn = static_cast<int>(random_bits(4, round) % kFfns);
    const int n_workers = 1 + static_cast<int>(round % 2);
    ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, 0.1), n_workers), 0) << round;
  }
  EXPECT_EQ(stream->problem(), "");
  if (may_overtake(*stream)) {
    EXPECT_GT(n_out_of_order, 30);
  }
  EXPECT_GT(stream->counters().cache.evictions, 0);
}

// A gate that was damaged must not count as one that does not fire.
TEST_P(GatesFirst, P7DamageInEitherPieceIsNoticed) {
  const RandomFfns model = with_gates(Type::kF16, 1408);
  for (const uint64_t offset : {5, 4096 + 5}) {
    const auto stream = stream_over(model, 0);
    const uint64_t at = stream->file().layout().bundle_offset(1, 77) + offset;
    const auto write = [&](const char* bytes) {
      std::fstream file(stream->file().path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at));
      file.write(bytes, 7);
    };
    firing_share = 1.0;
    write("damaged");
    EXPECT_EQ(use(*stream, model, 1, {76, 78}), 0);
    EXPECT_EQ(stream->problem(), "");
    EXPECT_EQ(use(*stream, model, 1, {75, 77}), 0);
    EXPECT_EQ(stream->counters().n_from_model, 1);
    EXPECT_NE(stream->problem().find("changed"), std::string::npos) << stream->problem();
    EXPECT_EQ(use(*stream, model, 1, {75, 77, 500}), 0);
    EXPECT_EQ(stream->counters().n_from_model, 1) << "it was in memory";
    std::filesystem::remove(stream->file().path());
  }
}

TEST_P(GatesFirst, P10WhatADiskCannotReadComesFromTheModel) {
  const RandomFfns model = with_gates(Type::kF16, 1408);
  // One page of each neuron is asked for by itself, so that either request fails now and then.
  std::atomic<bool> is_broken = false;
  spoil = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    return is_broken && read.offset / 4096 % 61 == 0 ? -EIO : returned;
  };
  const auto stream = stream_over(model, 300);
  for (int i = 0; i < 20; ++i) {
    is_broken = i % 2 == 0;
    fires_as = static_cast<uint64_t>(i);
    const std::vector<uint32_t> live = random_neurons(static_cast<uint64_t>(i), 0.1);
    ASSERT_EQ(use(*stream, model, i % kFfns, live, 2), 0) << i;
  }
  EXPECT_GT(stream->counters().n_from_model, 0);
  EXPECT_NE(stream->problem().find("cannot be read"), std::string::npos) << stream->problem();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GatesFirst,
    testing::Values(Way{true, ReadPipeline::kCluster, false, BundleReads::kTwice},
                    Way{false, ReadPipeline::kCluster, false, BundleReads::kTwice},
                    Way{true, ReadPipeline::kCluster, true, BundleReads::kTwice}),
    name_of);

}  // namespace
}  // namespace troika::prepare
