// A model that is split over several files gives the bits of the model it was split from, wherever
// its weights lie, and all of its files share the same side files.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/mapped_file.h"
#include "base/threads/team.h"
#include "tests/support/logits.h"
#include "tests/support/split_model.h"
#include "weights/content_key.h"

namespace troika {
namespace {

using test_support::TinyModelFile;

class SplitModel : public testing::Test {
 protected:
  static test_support::TinyModel model() {
    test_support::TinyModel model = test_support::tiny_model("qwen2");
    model.type = test_support::kQ8_0;
    return model;
  }

  const TinyModelFile whole_{model()};
  test::TempFolder folder_;
  const std::vector<std::string> shards_ =
      test_support::split_model(whole_.path(), folder_.file("m"), 3);
};

TEST_F(SplitModel, ComputesTheSameBits) {
  const auto tokens = test_support::random_tokens(model(), 40);
  prepare::Options options = whole_.float_options();
  const auto wanted = test_support::engine_logits(options, tokens);
  for (const auto load : {prepare::Load::kMap, prepare::Load::kCopy}) {
    options.model.file = shards_[1];
    options.memory.load = load;
    EXPECT_EQ(test_support::engine_logits(options, tokens), wanted) << static_cast<int>(load);
  }
}

TEST_F(SplitModel, TheKeyOfSideFilesCoversEveryShard) {
  const uint64_t key = weights::content_key(gguf::File::open(shards_[0]));
  EXPECT_EQ(weights::content_key(gguf::File::open(shards_[2])), key);
  for (const std::string& shard : shards_) {
    const auto before = weights::content_key(gguf::File::open(shards_[0]));
    std::string bytes = test::read_whole(shard);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    const auto time = std::filesystem::last_write_time(shard);
    test::write_whole(shard, bytes);
    std::filesystem::last_write_time(shard, time + std::chrono::seconds(1));
    EXPECT_NE(weights::content_key(gguf::File::open(shards_[0])), before) << shard;
  }
}

// Rows of a copy in memory may come to stand side by side, which changes nothing in the file.
TEST_F(SplitModel, TheKeyOfSideFilesIsThatOfTheFileAndNotOfItsCopyInMemory) {
  const gguf::File file = gguf::File::open(whole_.path());
  const uint64_t key = weights::content_key(file);
  const gguf::File::Shard& shard = file.shards().front();
  Team team(1);
  ASSERT_EQ(shard.map->copy_into_memory(team), shard.bytes.size());
  ASSERT_TRUE(shard.map->set_writable(true));
  std::memset(const_cast<std::byte*>(shard.bytes.data() + shard.data_offset), 0x3c,
              shard.bytes.size() - shard.data_offset);
  EXPECT_EQ(weights::content_key(file), key);
}

}  // namespace
}  // namespace troika
