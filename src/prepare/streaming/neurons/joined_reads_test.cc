// Bundles (P7) that lie near each other share a request, and each is found where it was read to.
#include "prepare/streaming/neurons/joined_reads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "solve/neurons/neuron_costs.h"
#include "tests/support/temp_folder.h"
#include "weights/neurons/source.h"

namespace troika::prepare {
namespace {

using weights::BundleLayout;
using weights::BundleShape;
using weights::kBundlePage;

TEST(JoinedReads, P7NearBundlesAreOneRequest) {
  std::vector<lanes::ReadRequest> reads;
  JoinedReads joined(2 * kBundlePage, &reads);
  joined.add({0, 4096});
  joined.add({0, 4096});         // is another bundle of the same page
  joined.add({3 * 4096, 8192});  // comes two pages behind
  joined.add({8 * 4096, 4096});  // comes three pages behind
  joined.add({100 * 4096, 4096});
  ASSERT_EQ(reads.size(), 3u);
  EXPECT_EQ(reads[0].bytes, 5u * 4096);
  EXPECT_EQ(reads[1].offset, 8u * 4096);
  EXPECT_EQ(joined.bytes(), 7u * 4096);
  std::vector<std::byte> memory(joined.bytes());
  joined.read_to(memory.data());
  EXPECT_EQ(joined.find(100), memory.data() + 100);
  EXPECT_EQ(joined.find(3 * 4096), memory.data() + 3 * 4096);
  EXPECT_EQ(joined.find(8 * 4096 + 7), memory.data() + 5 * 4096 + 7);
  EXPECT_EQ(joined.find(100 * 4096), memory.data() + 6 * 4096);
}

TEST(JoinedReads, P7RequestsHaveAnEnd) {
  std::vector<lanes::ReadRequest> reads;
  JoinedReads joined(kBundlePage, &reads);
  constexpr uint64_t kPages = 200;
  for (uint64_t i = 0; i < kPages; ++i) joined.add({i * kBundlePage, kBundlePage});
  EXPECT_EQ(joined.bytes(), kPages * kBundlePage);
  EXPECT_EQ(reads.size(), 4u);  // have 64 pages at most
}

// A gap without an end joins whatever fits into one request.
TEST(JoinedReads, P7AGapMayBeAsLargeAsNumbersAre) {
  for (const uint64_t gap : {UINT64_MAX, UINT64_MAX / 2}) {
    std::vector<lanes::ReadRequest> reads;
    JoinedReads joined(gap, &reads);
    for (const uint64_t page : {1u, 9u, 50u, 64u, 65u}) {
      joined.add({page * kBundlePage, kBundlePage});
    }
    ASSERT_EQ(reads.size(), 2u) << gap;
    EXPECT_EQ(reads[0].bytes, 64 * kBundlePage) << gap;
  }
}

// The gap that the disk tells is a number of pages. A file that is too small is not measured.
TEST(JoinedReads, P8TheGapIsMeasuredWhereTheFileIsLargeEnough) {
  const test::TempFolder folder;
  const std::string path = folder.file("bundles");
  for (const uint64_t n_neurons : {uint64_t{64}, uint64_t{4096}}) {
    const BundleLayout layout(BundleShape{2, n_neurons, 4096, 0});
    {
      std::ofstream file(path, std::ios::binary);
      const std::string page(kBundlePage, 'x');
      for (uint64_t i = 0; i < layout.file_bytes(); i += page.size()) file << page;
    }
    lanes::DiskOptions options;
    options.files = {path};
    lanes::DiskLane disk(options);
    std::vector<std::byte> memory(4 << 20);
    const uint64_t gap = measured_gap(disk, layout, memory);
    EXPECT_EQ(gap % kBundlePage, 0u);
    EXPECT_GE(gap, kBundlePage);
    EXPECT_LE(gap, 16 * kBundlePage);
    if (n_neurons == 64) {
      EXPECT_EQ(gap, kBundlePage);
    }
  }
}

// What the planner expects of neurons that are missing here and there, the hottest first.
TEST(JoinedReads, P8AreAsManyAsThePlannerThinks) {
  constexpr uint64_t kLayers = 16, kSegments = 24;
  constexpr uint64_t kSegment = weights::kSegmentNeurons, kOfClass = kSegment / 8;
  solve::NeuronLaw law;
  for (const double live : {1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.04, 0.01}) {
    law.classes.push_back({kLayers * kSegments * kOfClass, live});
  }
  plan::Storage storage;
  storage.reads = {{kBundlePage, 1 << 28, true, 16, 1.0, 200.0},
                   {1 << 20, 1 << 28, false, 16, 1.0, 2000.0}};
  for (const uint64_t bundle_bytes : {1800u, 4096u, 6656u}) {
    const BundleLayout layout({kLayers, kSegments * kSegment, bundle_bytes, 0});
    for (const uint64_t gap : {0u, 1u, 3u, 8u}) {
      uint64_t n_requests = 0, bytes = 0;
      for (uint64_t segment = 0; segment < kLayers * kSegments; ++segment) {
        std::vector<lanes::ReadRequest> reads;
        JoinedReads joined(gap * kBundlePage, &reads);
        for (uint64_t i = 0; i < kSegment; ++i) {
          const auto dice = static_cast<double>(random_bits(segment, i) >> 11) * 0x1p-53;
          if (dice >= law.classes[i / kOfClass].live) continue;
          joined.add(layout.pages(segment / kSegments, segment % kSegments * kSegment + i));
        }
        n_requests += reads.size();
        bytes += joined.bytes();
      }
      solve::NeuronArrangement one;  // has no places, so that all that is live is read
      one.read_bytes = layout.read_bytes();
      one.n_per_read = static_cast<int64_t>(layout.n_per_page());
      one.gap_bytes = gap * kBundlePage;
      const plan::NeuronForecast forecast =
          solve::neuron_forecast(one, {}, law, solve::DiskTimes(storage));
      const auto n = static_cast<double>(n_requests), read = static_cast<double>(bytes);
      EXPECT_NEAR(forecast.n_reads, n, 0.06 * n) << bundle_bytes << " " << gap;
      EXPECT_NEAR(forecast.read_bytes, read, 0.06 * read) << bundle_bytes << " " << gap;
    }
  }
}

// The gates of missing neurons are read first, and the rest of those that are live.
TEST(JoinedReads, P8InTwoRequestsAreAsManyAsThePlannerThinks) {
  constexpr uint64_t kLayers = 16, kSegments = 24, kFirst = kBundlePage;
  constexpr uint64_t kSegment = weights::kSegmentNeurons, kOfClass = kSegment / 8;
  constexpr double kPerLive = 1.6;
  solve::NeuronLaw law;
  for (const double live : {0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.04, 0.01}) {
    law.classes.push_back({kLayers * kSegments * kOfClass, live});
  }
  plan::Storage storage;
  storage.reads = {{kBundlePage, 1 << 28, true, 16, 1.0, 200.0},
                   {1 << 20, 1 << 28, false, 16, 1.0, 2000.0}};
  const auto dice = [](uint64_t a, uint64_t b) {
    return static_cast<double>(random_bits(a, b) >> 11) * 0x1p-53;
  };
  const BundleLayout layout({kLayers, kSegments * kSegment, 6656, 0, kFirst});
  for (const uint64_t gap : {0u, 1u, 3u, 8u}) {
    uint64_t n_requests = 0, bytes = 0;
    for (uint64_t segment = 0; segment < kLayers * kSegments; ++segment) {
      const uint64_t layer = segment / kSegments, begin = segment % kSegments * kSegment;
      std::vector<lanes::ReadRequest> reads;
      JoinedReads first(gap * kBundlePage, &reads);
      std::vector<uint64_t> wanted, live;
      for (uint64_t i = 0; i < kSegment; ++i) {
        if (dice(segment, i) >= kPerLive * law.classes[i / kOfClass].live) continue;
        wanted.push_back(begin + i);
        first.add(layout.pages(layer, begin + i, 0));
      }
      n_requests += reads.size();
      bytes += first.bytes();
      for (const uint64_t place : wanted) {
        const uint64_t offset = layout.bundle_offset(layer, place);
        (void)first.find(offset);
        if (!first.reads_to(offset + 6656) && dice(segment + (1 << 20), place) < 1.0 / kPerLive) {
          live.push_back(place);
        }
      }
      JoinedReads second(gap * kBundlePage, &reads);
      for (const uint64_t place : live) second.add(layout.pages(layer, place, 1));
      n_requests += reads.size();
      bytes += second.bytes();
    }
    solve::NeuronArrangement one;  // has no places, so that all that is predicted is read
    one.has_predictor = true;
    one.gates = plan::FfnGates::kInBundles;
    one.predicted_per_live = kPerLive;
    one.read_bytes = layout.read_bytes();
    one.gate_bytes = kFirst;
    one.gap_bytes = gap * kBundlePage;
    const plan::NeuronForecast forecast = solve::neuron_forecast(
        one, {0, plan::ReadPipeline::kCluster, true}, law, solve::DiskTimes(storage));
    const auto n = static_cast<double>(n_requests), read = static_cast<double>(bytes);
    EXPECT_NEAR(forecast.n_reads, n, 0.08 * n) << gap;
    EXPECT_NEAR(forecast.read_bytes, read, 0.08 * read) << gap;
  }
}

}  // namespace
}  // namespace troika::prepare
