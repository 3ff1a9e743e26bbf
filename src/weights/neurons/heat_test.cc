// Counts how often neurons fire (P8), and checks which files of counts are accepted.
#include "weights/neurons/heat.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/support/temp_folder.h"
#include "weights/neurons/source.h"

namespace troika::weights {
namespace {

// Returns counts of what a token used, and of what the one before had used too.
NeuronHeat::Reuse reuse_of(NeuronHeat::Reuse::Counts counts) {
  NeuronHeat::Reuse reuse;
  reuse.within[0] = counts;
  return reuse;
}

NeuronHeat some_heat() {
  NeuronHeat heat(2, 5);
  const uint32_t counts[2][5] = {{3, 9, 0, 9, 4}, {1, 2, 8, 0, 0}};
  for (uint64_t layer = 0; layer < 2; ++layer) {
    std::copy(std::begin(counts[layer]), std::end(counts[layer]), heat.counts(layer).begin());
  }
  heat.set_tokens(10);
  heat.set_reuse(reuse_of({90, 30}), reuse_of({40, 20}));
  return heat;
}

TEST(Heat, P8TheHottestComeFirstAndOfEachLayerItsFirstOnes) {
  const NeuronHeat heat = some_heat();
  EXPECT_EQ(heat.order(0), (std::vector<uint32_t>{1, 3, 4, 0, 2}));
  EXPECT_EQ(heat.order(1), (std::vector<uint32_t>{2, 1, 0, 3, 4}));
  EXPECT_EQ(heat.hottest(4), (std::vector<NeuronId>{{0, 0}, {0, 1}, {1, 0}, {0, 2}}));
  EXPECT_EQ(heat.hottest(100).size(), 10u);
  EXPECT_NEAR(heat.live_share(), 0.36, 1e-12);
}

// The hottest of all are meant, wherever in the layer they stand.
TEST(Heat, P8SaysHowFewNeuronsHaveMostOfTheFiring) {
  NeuronHeat heat(2, 1000);
  for (const size_t neuron : {3, 600, 999}) heat.counts(0)[neuron] = 30;
  for (const size_t neuron : {4, 700}) heat.counts(0)[neuron] = 5;
  EXPECT_DOUBLE_EQ(heat.share_for(0, 0.9), 0.003);
  EXPECT_DOUBLE_EQ(heat.share_for(0, 0.95), 0.004);
  EXPECT_DOUBLE_EQ(heat.share_for(0, 1.0), 0.005);
  EXPECT_EQ(heat.share_for(1, 0.8), 0.0) << "none fires";
}

TEST(Heat, P8SaysHowMuchNeuronsKeepToWhatTheyDid) {
  // Neurons that are live at half of the tokens: by chance a quarter of them is so twice in a row,
  // and all of the half if each does what it did before.
  NeuronHeat heat(1, 100);
  for (uint32_t& count : heat.counts(0)) count = 50;
  heat.set_tokens(100);
  EXPECT_EQ(heat.stay(), 0.0);  // nobody has counted who follows
  heat.set_reuse(reuse_of({99 * 50, 99 * 25}), {});
  EXPECT_NEAR(heat.stay(), 0.0, 1e-12);
  heat.set_reuse(reuse_of({99 * 50, 99 * 50}), {});
  EXPECT_NEAR(heat.stay(), 1.0, 1e-12);
  heat.set_reuse(reuse_of({99 * 50, 99 * 40}), {});
  EXPECT_NEAR(heat.stay(), 0.6, 1e-12);
  heat.set_reuse(reuse_of({99 * 50, 99 * 10}), {});  // less than by chance
  EXPECT_EQ(heat.stay(), 0.0);
  for (uint32_t& count : heat.counts(0)) count = 100;
  EXPECT_EQ(heat.stay(), 0.0);
}

// Neurons are ordered within their segments, because a segment's neurons lie in one stretch of the
// file.
TEST(Heat, P7SegmentsStayTogether) {
  constexpr uint64_t kNeurons = 1300;
  NeuronHeat heat(2, kNeurons);
  for (uint32_t i = 0; i < kNeurons; ++i) heat.counts(1)[i] = i * 7919 % 1009;
  const std::vector<uint32_t> order = heat.order(1);
  for (size_t place = 0; place < kNeurons; ++place) {
    ASSERT_EQ(order[place] / kSegmentNeurons, place / kSegmentNeurons);
    if (place % kSegmentNeurons == 0) continue;
    ASSERT_GE(heat.counts(1)[order[place - 1]], heat.counts(1)[order[place]]);
  }
  uint32_t last = 2000;
  for (const NeuronId id : heat.hottest(2 * kNeurons)) {
    const uint32_t neuron = heat.order(static_cast<uint64_t>(id.group))[size_t(id.neuron)];
    const uint32_t count = heat.counts(static_cast<uint64_t>(id.group))[neuron];
    ASSERT_LE(count, last);
    last = count;
  }
}

TEST(Heat, P8AFileIsReadBackOrRefusedInWords) {
  const test::TempFolder folder;
  const std::string path = folder.file("new/heat.bin");
  std::string problem;
  EXPECT_FALSE(read_heat(path, 1, 2, 5, &problem));
  EXPECT_EQ(problem, "");
  write_heat(path, 1, some_heat());
  const std::optional<NeuronHeat> read = read_heat(path, 1, 2, 5, &problem);
  ASSERT_TRUE(read) << problem;
  EXPECT_EQ(read->key(), some_heat().key());
  EXPECT_EQ(read->n_tokens(), 10u);
  EXPECT_EQ(read->neurons_reuse().within[0].n, 90u);
  EXPECT_EQ(read->experts_reuse().within[0].n_again, 20u);
  EXPECT_EQ(read->neurons_reuse().within[0].n_again, 30u);
  EXPECT_FALSE(read_heat(path, 2, 2, 5, &problem));
  EXPECT_NE(problem.find("another content"), std::string::npos);
  EXPECT_FALSE(read_heat(path, 1, 3, 5, &problem));
  EXPECT_NE(problem.find("another shape"), std::string::npos);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    std::ofstream(folder.file("changed"), std::ios::binary) << changed;
    EXPECT_FALSE(read_heat(folder.file("changed"), 1, 2, 5, &problem)) << i;
    std::ofstream(folder.file("short"), std::ios::binary) << bytes.substr(0, i);
    EXPECT_FALSE(read_heat(folder.file("short"), 1, 2, 5, &problem)) << i;
    EXPECT_NE(problem, "") << i;
  }
  test::write_whole(folder.file("long"), bytes + '\0');
  EXPECT_FALSE(read_heat(folder.file("long"), 1, 2, 5, &problem));
  EXPECT_NE(problem.find("length"), std::string::npos) << problem;
}

TEST(Heat, P8APipeInThePlaceOfTheFileIsRefusedAtOnce) {
  const test::TempFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  std::string problem;
  EXPECT_FALSE(read_heat(folder.file("pipe"), 1, 2, 5, &problem));
  EXPECT_EQ(problem, "is no regular file");
}

}  // namespace
}  // namespace troika::weights
