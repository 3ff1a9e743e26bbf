// Bundles (P7) that lie near each other share a request, and each is found where it was read to.
#include "prepare/streaming/neurons/joined_reads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "tests/support/temp_folder.h"

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

}  // namespace
}  // namespace troika::prepare
