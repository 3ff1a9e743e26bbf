// Neurons are read while others are computed (P6). Their bytes are those of the model, whatever the
// budget is and in whatever order they come.
#include "prepare/streaming/neurons/neuron_stream.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "prepare/streaming/neurons/neuron_stream_test_support.h"
#include "tests/support/temp_folder.h"

namespace troika::prepare {
namespace {

using namespace neuron_test;

class NeuronStreams : public NeuronStreamTest {
 protected:
  NeuronStreams() { path = folder_.file("bundles.bin"); }

 private:
  test::TempFolder folder_;
};

// Returns counts in which a neuron is the hotter the higher its number is.
weights::NeuronHeat hotter_by_number() {
  weights::NeuronHeat counted(kFfns, kNeurons);
  for (uint64_t ffn = 0; ffn < kFfns; ++ffn) {
    for (uint32_t i = 0; i < kNeurons; ++i) counted.counts(ffn)[i] = i;
  }
  counted.set_tokens(kNeurons);
  return counted;
}

TEST_P(NeuronStreams, P6BytesAreThoseOfTheModelAtAnyBudget) {
  struct Form {
    Type type;
    int width;
  };
  // The bundles take a part of a page; a page, without scales; and two pages.
  for (const Form form : {Form{Type::kQ4_0, 256}, Form{Type::kF16, 1024}, Form{Type::kF32, 1024}}) {
    const RandomFfns model(form.type, form.width);
    for (const size_t n_more : {0, 300, 2000, 5000}) {
      const auto stream = stream_over(model, n_more);
      for (uint64_t round = 0; round < 40; ++round) {
        const double share = round % 5 == 0 ? 1.0 : 0.02 + random_unit(7, round) * 0.4;
        const int ffn = static_cast<int>(round % kFfns);
        const int n_workers = 1 + static_cast<int>(round / 3 % 3);
        ASSERT_EQ(use(*stream, model, ffn, random_neurons(round / 2, share), n_workers), 0);
        EXPECT_EQ(stream->problem(), "");
      }
      EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
    }
  }
}

TEST_P(NeuronStreams, P6ThousandOrdersOfArrival) {
  const RandomFfns model(Type::kQ4_0, 256);
  draw_orders();
  for (const int at_once : {1, 7, 128}) {
    depth = at_once;
    n_out_of_order = 0;
    const auto stream = stream_over(model, 100);
    const uint64_t n_rounds = at_once == 128 ? 1000 : 30;
    for (round = 0; round < n_rounds; ++round) {
      const int ffn = static_cast<int>(random_bits(4, round) % kFfns);
      const int n_workers = 1 + static_cast<int>(round % 2);
      ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, 0.1), n_workers), 0) << round;
    }
    EXPECT_EQ(stream->problem(), "");
    const NeuronStream::Counters counters = stream->counters();
    EXPECT_GT(counters.cache.hits, 0);
    EXPECT_GT(counters.cache.evictions, 0);
    if (at_once > 1 && may_overtake(*stream)) {
      EXPECT_GT(n_out_of_order, static_cast<int64_t>(n_rounds / 20));
    }
  }
}

// A token takes several experts of a mixture, whose neurons come together.
TEST_P(NeuronStreams, P3ExpertsOfABatchAreReadTogether) {
  const RandomFfns model(Type::kQ4_0, 256, true);
  for (const size_t n_more : {0, 300, 5000}) {
    const auto stream = stream_over(model, n_more);
    for (uint64_t round = 0; round < 60; ++round) {
      const std::vector<Need> needs = random_experts(round);
      if (needs.empty()) continue;
      ASSERT_EQ(use(*stream, model, needs, 1 + int(round % 3)), 0) << round;
      EXPECT_EQ(stream->problem(), "");
    }
    EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
  }
  const auto stream = stream_over(model, 5000);
  const std::vector<Need> needs = {{0, random_neurons(1, 0.1)}, {2, random_neurons(2, 0.1)}};
  EXPECT_EQ(use(*stream, model, needs), 0);
  // Before the first was computed, the second was asked for too, as far as reads had memory.
  EXPECT_GT(n_missed_when_told, int64_t(needs[0].live.size()));
}

TEST_P(NeuronStreams, P5WhatIsInTheCacheIsNotReadAgain) {
  const RandomFfns model(Type::kF16, 1024);
  const auto stream = stream_over(model, 5000);
  const std::vector<uint32_t> live = random_neurons(3, 0.1);
  EXPECT_EQ(use(*stream, model, 1, live), 0);
  const NeuronStream::Counters first = stream->counters();
  EXPECT_EQ(first.cache.misses, static_cast<int64_t>(live.size()));
  EXPECT_EQ(use(*stream, model, 1, live), 0);
  const NeuronStream::Counters second = stream->counters();
  EXPECT_EQ(second.cache.misses, first.cache.misses);
  EXPECT_EQ(second.cache.hits, static_cast<int64_t>(live.size()));
  EXPECT_EQ(second.read_bytes, first.read_bytes);
}

TEST_P(NeuronStreams, P2AllNeuronsOfALayerAreReadInLongRequests) {
  const RandomFfns model(Type::kF16, 1024);
  const auto stream = stream_over(model, 5000);
  EXPECT_EQ(use(*stream, model, 0, random_neurons(0, 2.0)), 0);
  const NeuronStream::Counters counters = stream->counters();
  EXPECT_EQ(counters.read_bytes, uint64_t{kNeurons} * 4096);
  EXPECT_LE(counters.n_reads, kNeurons * 4096 / (256 << 10) + 3);
}

TEST_P(NeuronStreams, P7LargerGapsAreFewerRequestsAndTheSameBytes) {
  const RandomFfns model(Type::kF16, 1024);
  int64_t n_reads = 0;
  uint64_t read_bytes = 0;
  for (const uint64_t gap : {uint64_t{0}, uint64_t{64} << 10}) {
    gap_bytes = gap;
    const auto stream = stream_over(model, 0);
    EXPECT_EQ(stream->gap_bytes(), gap);
    for (int ffn = 0; ffn < kFfns; ++ffn) {
      EXPECT_EQ(use(*stream, model, ffn, random_neurons(3, 0.1), 2), 0);
    }
    const NeuronStream::Counters counters = stream->counters();
    if (gap > 0) {
      EXPECT_LT(counters.n_reads, n_reads / 2);
      EXPECT_GT(counters.read_bytes, read_bytes);
    }
    n_reads = counters.n_reads;
    read_bytes = counters.read_bytes;
  }
}

TEST_P(NeuronStreams, P10WhatAFileThatWasCutShortLacksComesFromTheModel) {
  for (const Type type : {Type::kQ4_0, Type::kQ8_0, Type::kQ4_K, Type::kF16}) {
    const RandomFfns model(type, 1024);
    const auto stream = stream_over(model, 0);
    EXPECT_EQ(use(*stream, model, 0, random_neurons(1, 0.1)), 0);
    EXPECT_EQ(stream->problem(), "");
    ASSERT_EQ(::truncate(stream->file().path().c_str(), 10 * 4096), 0);
    EXPECT_EQ(use(*stream, model, 2, random_neurons(1, 0.1), 2), 0);
    EXPECT_GT(stream->counters().n_from_model, 0);
    EXPECT_NE(stream->problem().find("the file ends at byte"), std::string::npos);
    EXPECT_NE(stream->problem().find("Remove"), std::string::npos) << stream->problem();
    EXPECT_EQ(use(*stream, model, 1, random_neurons(2, 2.0), 2), 0);
  }
}

TEST_P(NeuronStreams, P7ABundleThatWasChangedWhileRunningComesFromTheModel) {
  const RandomFfns model(Type::kQ4_0, 256);
  const auto stream = stream_over(model, 0);
  const uint64_t at = stream->file().layout().bundle_offset(1, 77);
  {
    std::fstream file(stream->file().path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at + 5));
    file.write("damaged", 7);
  }
  EXPECT_EQ(use(*stream, model, 1, {76, 78}), 0);
  EXPECT_EQ(stream->problem(), "");
  EXPECT_EQ(use(*stream, model, 1, {76, 77}), 0);
  EXPECT_EQ(stream->counters().n_from_model, 1);
  EXPECT_NE(stream->problem().find("changed"), std::string::npos) << stream->problem();
  EXPECT_EQ(use(*stream, model, 1, {76, 77, 500}), 0);
  EXPECT_EQ(stream->counters().n_from_model, 1) << "it was in memory";
}

TEST_P(NeuronStreams, P7HotNeuronsThatWereDamagedComeFromTheModel) {
  const RandomFfns model(Type::kQ4_0, 1024);
  const weights::NeuronHeat counted = hotter_by_number();
  heat = &counted;
  const std::string path = stream_over(model, 600)->file().path();
  const auto damage = [&](uint64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at + 5));
    file.write("damaged", 7);
  };
  damage(stream_over(model, 600)->file().layout().bundle_offset(1, 2 * kSegmentNeurons + 3));
  const auto stream = stream_over(model, 600);
  EXPECT_FALSE(stream->file().is_new());
  EXPECT_EQ(stream->counters().n_from_model, 1);
  EXPECT_NE(stream->problem().find("damaged"), std::string::npos) << stream->problem();
  for (int ffn = 0; ffn < kFfns; ++ffn) {
    EXPECT_EQ(use(*stream, model, ffn, random_neurons(5, 2.0), 2), 0);
  }
}

TEST_P(NeuronStreams, P7AFileThatIsReplacedWhileRunningIsStillTheOneThatWasOpened) {
  const RandomFfns model(Type::kQ4_0, 256);
  const auto stream = stream_over(model, 0);
  std::filesystem::remove(stream->file().path());
  std::ofstream(stream->file().path()) << "another";
  EXPECT_EQ(use(*stream, model, 1, random_neurons(1, 0.3)), 0);
  EXPECT_EQ(stream->problem(), "");
}

TEST_P(NeuronStreams, P5TheHottestAreThereFromTheStartAndStay) {
  const RandomFfns model(Type::kQ4_0, 1024);
  weights::NeuronHeat counted(kFfns, kNeurons);
  std::vector<uint32_t> hot;
  for (uint64_t ffn = 0; ffn < kFfns; ++ffn) {
    for (uint32_t i = 0; i < kNeurons; ++i) {
      const bool is_hot = random_bits(11, i) % 16 == 0;  // makes the same neurons hot in each layer
      counted.counts(ffn)[i] =
          static_cast<uint32_t>(random_bits(10 + ffn, i) % 50) + (is_hot ? 1000 : 0);
      if (ffn == 0 && is_hot) hot.push_back(i);
    }
  }
  counted.set_tokens(2000);
  heat = &counted;
  for (const double share : {0.0, 0.5, 1.0}) {
    pinned_share = {share};
    const auto stream = stream_over(model, 600);
    for (int ffn = 0; ffn < kFfns; ++ffn) EXPECT_EQ(use(*stream, model, ffn, hot), 0);
    EXPECT_EQ(stream->counters().cache.misses, 0);
    EXPECT_TRUE(GetParam().reads_ahead || stream->counters().n_reads == 0);
    // All neurons of all blocks are used, which are more than there are places.
    for (int ffn = 0; ffn < kFfns; ++ffn) {
      ASSERT_EQ(use(*stream, model, ffn, random_neurons(1, 2.0), 2), 0);
    }
    const int64_t n_misses = stream->counters().cache.misses;
    EXPECT_GT(n_misses, 0);
    for (int ffn = 0; ffn < kFfns; ++ffn) ASSERT_EQ(use(*stream, model, ffn, hot), 0);
    if (share == 0.0) {
      EXPECT_EQ(stream->cache().n_pins(), 0);
      EXPECT_GT(stream->counters().cache.misses, n_misses);
    } else {
      EXPECT_EQ(stream->counters().cache.misses, n_misses) << share;
      EXPECT_LE(stream->cache().n_pins() + 2 * kSegmentNeurons, stream->cache().n_slots());
    }
    EXPECT_EQ(stream->problem(), "");
    EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
  }
}

TEST_P(NeuronStreams, P7WithoutHeatTheBundlesOfOneWhoKnewItAreRead) {
  const RandomFfns model(Type::kQ4_0, 1024);
  const weights::NeuronHeat counted = hotter_by_number();
  heat = &counted;
  EXPECT_TRUE(stream_over(model, 600)->file().is_new());
  heat = nullptr;
  const auto stream = stream_over(model, 600);
  EXPECT_FALSE(stream->file().is_new());
  EXPECT_NE(stream->file().tables().order(0).front(), 0u);
  for (uint64_t round = 0; round < 10; ++round) {
    const int ffn = static_cast<int>(round % kFfns);
    ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, 0.2), 2), 0) << round;
  }
  EXPECT_EQ(stream->problem(), "");
}

TEST_P(NeuronStreams, P4PinsFollowTheTokensThatAreComputedTogether) {
  const RandomFfns model(Type::kQ4_0, 1024);
  weights::NeuronHeat counted(kFfns, kNeurons);
  for (uint64_t ffn = 0; ffn < kFfns; ++ffn) {
    for (uint32_t i = 0; i < kNeurons; ++i) {
      counted.counts(ffn)[i] = static_cast<uint32_t>(random_bits(10 + ffn, i) % 1000);
    }
  }
  counted.set_tokens(2000);
  heat = &counted;
  pinned_share = {0.25, 0.1, 0.0};
  const auto stream = stream_over(model, 600);
  const auto n_slots = static_cast<double>(stream->cache().n_slots());
  for (uint64_t round = 0; round < 40; ++round) {
    const int n_tokens = 1 + static_cast<int>(random_bits(3, round) % 17);
    const int ffn = static_cast<int>(round % kFfns);
    ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, 0.05 * n_tokens), 2, n_tokens), 0);
    const double share = pinned_share[std::min<size_t>(size_t(n_tokens), 3) - 1];
    EXPECT_EQ(stream->cache().n_pins(), static_cast<int64_t>(share * n_slots)) << n_tokens;
  }
  EXPECT_EQ(stream->problem(), "");
  EXPECT_LE(stream->cache().most_resident_bytes(), stream->bytes());
}

TEST_P(NeuronStreams, P10ShortReadsGoOnWhereTheyEnded) {
  const RandomFfns model(Type::kF16, 1024);
  std::atomic<uint64_t> n_calls = 0;
  std::atomic<int> n_short = 0;
  spoil = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
    const uint64_t call = n_calls++;
    if (returned < 2 || random_bits(5, call) % 3 == 0) return returned;
    ++n_short;
    if (random_bits(6, call) % 4 == 0) return -EINTR;
    return 1 + static_cast<int64_t>(random_bits(7, call) % static_cast<uint64_t>(returned - 1));
  };
  const auto stream = stream_over(model, 300);
  for (uint64_t round = 0; round < 30; ++round) {
    const int ffn = static_cast<int>(round % kFfns);
    ASSERT_EQ(use(*stream, model, ffn, random_neurons(round, 0.2), 2), 0) << round;
  }
  EXPECT_EQ(stream->problem(), "");
  EXPECT_GT(n_short, 100);
}

TEST_P(NeuronStreams, P10WhatADiskCannotReadComesFromTheModel) {
  const RandomFfns model(Type::kF16, 1024);
  std::atomic<bool> is_broken = false;
  spoil = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    return is_broken && read.offset / 4096 % 7 == 0 ? -EIO : returned;
  };
  const auto stream = stream_over(model, 5000);
  for (int i = 0; i < 20; ++i) {
    is_broken = i % 2 == 0;
    const std::vector<uint32_t> live = random_neurons(static_cast<uint64_t>(i), 0.1);
    ASSERT_EQ(use(*stream, model, i % kFfns, live, 2), 0) << i;
  }
  EXPECT_GT(stream->counters().n_from_model, 0);
  EXPECT_NE(stream->problem().find("bundles.bin"), std::string::npos) << stream->problem();
  EXPECT_NE(stream->problem().find("cannot be read"), std::string::npos) << stream->problem();
}

INSTANTIATE_TEST_SUITE_P(Ways, NeuronStreams,
                         testing::Values(Way{true, ReadPipeline::kCluster},
                                         Way{false, ReadPipeline::kCluster},
                                         Way{true, ReadPipeline::kMatrix},
                                         Way{true, ReadPipeline::kCluster, true},
                                         Way{false, ReadPipeline::kMatrix, true}),
                         name_of);

// Whenever a process that writes bundles is killed, the next one finds a whole file or none.
TEST(BundlesOfAKilledProcess, P7AreNeverUsed) {
  const RandomFfns model(Type::kQ4_0, 1024);
  const test::TempFolder folder;
  NeuronStreamOptions options;
  options.path = folder.file("bundles/bundles.bin");
  options.model_key = 1;
  options.most_bytes = NeuronStream::least_bytes(model.ffns, *model.store);
  int n_absent = 0, n_whole = 0;
  for (uint64_t round = 0; round < 24; ++round) {
    std::filesystem::remove(options.path);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        const NeuronStream written(options, model.ffns, *model.store);
        for (;;) pause();
      } catch (...) {
      }
      _exit(1);
    }
    usleep(static_cast<useconds_t>(500 + random_bits(8, round) % (round < 16 ? 20'000 : 300'000)));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    const bool was_there = std::filesystem::exists(options.path);
    ++(was_there ? n_whole : n_absent);
    NeuronStream stream(options, model.ffns, *model.store);
    EXPECT_EQ(stream.file().is_new(), !was_there);
    EXPECT_EQ(stream.file().problem(), "");
    const auto files = std::filesystem::directory_iterator(folder.file("bundles"));
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "something was left behind";
  }
  EXPECT_GT(n_absent, 0);
}

TEST(Staging, P6PiecesAreApartAndComeBackInAnyOrder) {
  Staging staging(1000, 8);
  std::vector<Staging::Loan> out;
  for (uint64_t i = 0; i < 20'000; ++i) {
    if (random_bits(1, i) % 2 == 0 && out.size() < 8) {
      const Staging::Loan loan = staging.take(1 + random_bits(2, i) % 1000);
      EXPECT_TRUE(loan.memory != nullptr || !out.empty());
      if (loan.memory == nullptr) continue;
      for (const Staging::Loan& other : out) {
        ASSERT_TRUE(loan.memory + loan.bytes <= other.memory ||
                    other.memory + other.bytes <= loan.memory);
      }
      out.push_back(loan);
    } else if (!out.empty()) {
      const auto at = out.begin() + static_cast<long>(random_bits(3, i) % out.size());
      staging.give_back(*at);
      out.erase(at);
    }
  }
}

}  // namespace
}  // namespace troika::prepare
