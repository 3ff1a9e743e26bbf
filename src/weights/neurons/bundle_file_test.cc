#include "weights/neurons/bundle_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"
#include "weights/neurons/source.h"

namespace troika::weights {
namespace {

std::byte byte_of(uint64_t layer, uint64_t neuron, uint64_t i) {
  return static_cast<std::byte>(random_bits(layer * 1000 + neuron, i) & 0xff);
}

// Makes bundles of random bytes. Every layer has an order of its own.
struct RandomSource : BundleSource {
  explicit RandomSource(const BundleShape& shape) : shape(shape) {}
  std::vector<uint32_t> order(uint64_t layer) override {
    std::vector<uint32_t> order(shape.n_neurons);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return random_bits(layer, a) < random_bits(layer, b);
    });
    return order;
  }
  void make(uint64_t layer, std::span<std::byte> bundles, std::span<std::byte> resident) override {
    ++n_made;
    for (uint64_t neuron = 0; neuron < shape.n_neurons; ++neuron) {
      for (uint64_t i = 0; i < shape.bundle_bytes; ++i) {
        bundles[neuron * shape.bundle_bytes + i] = byte_of(layer, neuron, i);
      }
    }
    for (uint64_t i = 0; i < resident.size(); ++i) resident[i] = byte_of(layer, 999, i);
  }
  void check_made() const override {
    if (is_lost) throw Error("The model is lost.");
  }
  BundleShape shape;
  int n_made = 0;
  bool is_lost = false;
};

std::vector<char> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_content(const std::string& path, const std::vector<char>& content) {
  std::ofstream(path, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

class BundleFileTest : public testing::TestWithParam<
                           std::pair<uint64_t /*bundle_bytes*/, uint64_t /*first_bytes*/>> {
 protected:
  BundleFileTest()
      : shape{3, 37, GetParam().first, 500, GetParam().second},
        source(shape),
        options{folder.file("sub/bundles"), {1, 2}} {}

  void expect_content(const BundleFile& file) {
    const std::vector<char> all = content_of(file.path());
    ASSERT_EQ(all.size(), file.bytes());
    const BundleLayout& layout = file.layout();
    for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
      const std::span<const uint32_t> order = file.tables().order(layer);
      EXPECT_TRUE(std::ranges::equal(order, source.order(layer)));
      for (uint64_t place = 0; place < shape.n_neurons; ++place) {
        const BundleRange pages = layout.pages(layer, place);
        EXPECT_EQ(pages.offset % kBundlePage, 0u);
        EXPECT_EQ(pages.bytes, layout.read_bytes());
        const uint64_t offset = layout.bundle_offset(layer, place);
        ASSERT_GE(offset, pages.offset);
        ASSERT_LE(offset + shape.bundle_bytes, pages.offset + pages.bytes);
        const auto bundle = std::as_bytes(std::span(all)).subspan(offset, shape.bundle_bytes);
        for (uint64_t i = 0; i < layout.n_pieces(); ++i) {
          const BundleRange piece = layout.piece(i);
          EXPECT_EQ(bundle_check(bundle.subspan(piece.offset, piece.bytes)),
                    file.tables().check(layer, place, i));
        }
        for (uint64_t i = 0; i < shape.bundle_bytes; ++i) {
          ASSERT_EQ(bundle[i], byte_of(layer, order[place], i));
        }
      }
      const std::span<const std::byte> resident = file.tables().resident(layer);
      ASSERT_EQ(resident.size(), 500u);
      for (uint64_t i = 0; i < 500; ++i) ASSERT_EQ(resident[i], byte_of(layer, 999, i));
    }
  }

  test::TempFolder folder;
  BundleShape shape;
  RandomSource source;
  BundleFile::Options options;
};

TEST_P(BundleFileTest, P7ANeuronIsOnePieceInWholePages) {
  const BundleFile made(options, shape, source);
  EXPECT_TRUE(made.is_new());
  EXPECT_TRUE(made.problem().empty());
  expect_content(made);
  const BundleFile opened(options, shape, source);
  EXPECT_FALSE(opened.is_new());
  EXPECT_EQ(source.n_made, 3);
  expect_content(opened);
}

TEST_P(BundleFileTest, P7AStaleFileIsMadeAgain) {
  { const BundleFile first(options, shape, source); }
  const auto expect_made_again = [&](const char* problem) {
    const BundleFile file(options, shape, source);
    EXPECT_TRUE(file.is_new());
    EXPECT_NE(file.problem().find(problem), std::string::npos) << file.problem();
    expect_content(file);
    EXPECT_FALSE(BundleFile(options, shape, source).is_new());
  };
  options.keys.model = 7;
  expect_made_again("another content");
  options.keys.form = 7;
  expect_made_again("another form");
  shape.n_neurons = source.shape.n_neurons = 36;
  expect_made_again("another form");
  std::vector<char> content = content_of(options.path);
  content[16] = 99;  // is the version
  write_content(options.path, content);
  expect_made_again("another version");
  write_content(options.path, {'t', 'r', 'o'});
  expect_made_again("too short");
  write_content(options.path, std::vector<char>(5000));
  expect_made_again("no file of bundles");
}

// Two ways to run a model, of which one knows no heat, would else write the other's file anew.
TEST_P(BundleFileTest, P7WhoKnowsNoOrderTakesAny) {
  options.keys.order = 5;
  { const BundleFile made(options, shape, source); }
  options.keys.order = 0;
  const BundleFile opened(options, shape, source);
  EXPECT_FALSE(opened.is_new());
  expect_content(opened);
  for (const uint64_t order : {6, 7}) {
    options.keys.order = order;
    const BundleFile again(options, shape, source);
    EXPECT_TRUE(again.is_new());
    EXPECT_NE(again.problem().find("order of another count"), std::string::npos);
  }
}

TEST_P(BundleFileTest, P7AFileCutAnywhereIsMadeAgain) {
  std::vector<char> content;
  {
    const BundleFile file(options, shape, source);
    content = content_of(file.path());
  }
  for (size_t bytes = 0; bytes < content.size(); bytes += 1 + content.size() / 7) {
    write_content(options.path, {content.begin(), content.begin() + static_cast<long>(bytes)});
    const BundleFile file(options, shape, source);
    EXPECT_TRUE(file.is_new());
    EXPECT_FALSE(file.problem().empty());
    EXPECT_EQ(content_of(options.path), content);
  }
}

TEST_P(BundleFileTest, P7AnyDamageIsNoticed) {
  std::vector<char> content;
  {
    const BundleFile file(options, shape, source);
    content = content_of(file.path());
  }
  const BundleLayout layout(shape);
  int n_noticed = 0;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    std::vector<char> damaged = content;
    const uint64_t in_tables =
        layout.tables_offset(draw % shape.n_layers) + random_bits(6, draw) % layout.table_bytes();
    const uint64_t at = draw % 2 == 0 ? random_bits(5, draw) % content.size() : in_tables;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << draw % 8));
    const auto read_at = [&](uint64_t offset, std::span<std::byte> to) {
      if (offset > damaged.size() || to.size() > damaged.size() - offset) return false;
      std::memcpy(to.data(), damaged.data() + offset, to.size());
      return true;
    };
    BundleTables tables;
    const std::string problem = tables.read(read_at, damaged.size(), shape, options.keys);
    n_noticed += problem.empty() ? 0 : 1;
    if (!problem.empty()) continue;
    // Damage that the tables do not show lies in a bundle, whose check shows it when it is read, or
    // between two bundles.
    for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
      for (uint64_t place = 0; place < shape.n_neurons; ++place) {
        const uint64_t begin = layout.bundle_offset(layer, place);
        const auto bundle = std::as_bytes(std::span(damaged)).subspan(begin, shape.bundle_bytes);
        for (uint64_t i = 0; i < layout.n_pieces(); ++i) {
          const BundleRange piece = layout.piece(i);
          const bool is_whole = bundle_check(bundle.subspan(piece.offset, piece.bytes)) ==
                                tables.check(layer, place, i);
          const uint64_t first = begin + piece.offset;
          ASSERT_EQ(is_whole, at < first || at >= first + piece.bytes) << at;
        }
      }
    }
  }
  EXPECT_GE(n_noticed, 50);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BundleFileTest,
                         testing::Values(std::pair(1, 0), std::pair(100, 0), std::pair(4096, 0),
                                         std::pair(4352, 0), std::pair(24576, 0),
                                         // These have gates that are read by themselves.
                                         std::pair(4097, 4096), std::pair(6656, 4096),
                                         std::pair(24576, 8192)));

// A segment's neurons lie in one stretch of the file, because readers rely on that.
TEST(BundleFile, P7AnOrderAcrossSegmentsIsRefused) {
  const test::TempFolder folder;
  const BundleShape shape = {1, 2 * kSegmentNeurons, 64, 0};
  RandomSource source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  try {
    const BundleFile file(options, shape, source);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos) << error.what();
  }
}

TEST(BundleFile, P7ADiskThatIsFullIsASentenceAndLeavesNothing) {
  const BundleShape shape = {2, 100, 4096, 64};
  const test::TempFolder folder;
  RandomSource source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  const std::string message = test::message_of<Error>([&] {
    const test::FileSizeLimit limit(100'000);
    const BundleFile file(options, shape, source);
  });
  EXPECT_NE(message.find("‹ffn›"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

// What was made of a model that was cut short meanwhile has zeros, and would have right checks.
TEST(BundleFile, P7WhatMayNotBeTheModelsGetsNoName) {
  const BundleShape shape = {2, 10, 4096, 64};
  const test::TempFolder folder;
  RandomSource source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  source.is_lost = true;
  const auto make = [&] { const BundleFile file(options, shape, source); };
  EXPECT_EQ(test::message_of<Error>(make), "The model is lost.");
  EXPECT_EQ(folder.n_files(), 0u);
  source.is_lost = false;
  make();
  EXPECT_EQ(folder.n_files(), 1u);
}

// The caller knows what to do where memory is short.
TEST(BundleFile, P7MemoryThatIsShortIsNoFaultOfTheDisk) {
  struct Greedy : RandomSource {
    using RandomSource::RandomSource;
    void make(uint64_t, std::span<std::byte>, std::span<std::byte>) override {
      throw std::bad_alloc();
    }
  };
  const BundleShape shape = {2, 10, 4096, 64};
  const test::TempFolder folder;
  Greedy source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  EXPECT_THROW(BundleFile(options, shape, source), std::bad_alloc);
  EXPECT_EQ(folder.n_files(), 0u);
}

TEST(BundleFile, P7APipeInItsPlaceIsRefused) {
  const BundleShape shape = {2, 10, 4096, 64};
  const test::TempFolder folder;
  RandomSource source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  ASSERT_EQ(::mkfifo(options.path.c_str(), 0600), 0);
  const std::string message =
      test::message_of<Error>([&] { const BundleFile file(options, shape, source); });
  EXPECT_NE(message.find("Remove it."), std::string::npos) << message;
}

TEST(BundleFile, P7APipeHoldsNoOtherBundles) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(holds_other_bundles(folder.file("pipe"), 1));
}

// --no-cache would be refused where neurons are read.
TEST(BundleFile, P7ANewFileThatIsWrongIsASentenceWithAWayOut) {
  struct Disordered : RandomSource {
    using RandomSource::RandomSource;
    std::vector<uint32_t> order(uint64_t) override { return std::vector<uint32_t>(10); }
  };
  const BundleShape shape = {2, 10, 4096, 64};
  const test::TempFolder folder;
  Disordered source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  const std::string message =
      test::message_of<Error>([&] { const BundleFile file(options, shape, source); });
  EXPECT_NE(message.find("just written is damaged. "), std::string::npos) << message;
  EXPECT_NE(message.find("‹ffn› by-output"), std::string::npos) << message;
  EXPECT_EQ(message.find("‹no-cache›"), std::string::npos) << message;
}

size_t n_open_files() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(BundleFile, P7AFileThatCannotBeMadeAgainIsNotLeftOpen) {
  const BundleShape shape = {2, 10, 4096, 64};
  const test::TempFolder folder;
  RandomSource source(shape);
  const BundleFile::Options options = {folder.file("bundles"), {1, 2}};
  write_content(options.path, {'t', 'r', 'o'});
  source.is_lost = true;
  const size_t before = n_open_files();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(BundleFile(options, shape, source), Error);
  EXPECT_EQ(n_open_files(), before);
}

TEST(BundleFile, P7ABundleOf4BitWeightsWithoutItsGateIsAPage) {
  // Weights 4096 wide without scales take 2,048 bytes for up and 2,048 for down. With the gate, and
  // with rows as in the file, they take 6,656, which is two pages.
  EXPECT_EQ(BundleLayout({1, 1, 4096, 0}).read_bytes(), 4096u);
  EXPECT_EQ(BundleLayout({1, 1, 6656, 0}).read_bytes(), 8192u);
  EXPECT_EQ(BundleLayout({1, 1, 24576, 0}).read_bytes(), 24576u);
  EXPECT_EQ(BundleLayout({1, 8, 1000, 0}).bundles_bytes(), 8192u);
}

}  // namespace
}  // namespace troika::weights
