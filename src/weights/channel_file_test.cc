#include "weights/channel_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "model/architecture.h"
#include "model/linear_inputs.h"
#include "tests/support/known_file.h"
#include "tests/support/temp_folder.h"
#include "weights/channels.h"
#include "weights/store.h"

namespace troika::weights {
namespace {

class ChannelFileTest : public testing::Test {
 protected:
  ChannelFileTest() {
    inputs_.resize(2);
    std::vector<model::WeightId> ids;
    for (const model::LinearInput& input : inputs_) {
      ids.insert(ids.end(), input.weights.begin(), input.weights.end());
    }
    store_.pack_int8(ids, 1);
  }
  // Opens the file and copies all columns. Returns what was wrong with the file that was there.
  std::string problem() {
    const ChannelFile file = open();
    const std::vector<ChannelChoice> choices = {{.input = inputs_[0]}, {.input = inputs_[1]}};
    const Channels channels(store_, choices, file);
    return file.problem();
  }
  void spoil(size_t at) {
    std::string bytes = test::read_whole(options_.path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    test::write_whole(options_.path, bytes);
  }
  ChannelFile open() { return ChannelFile(store_, options_, inputs_, inputs_); }

  test::TempFolder folder_;
  const gguf::File model_ =
      test_support::KnownFile(test_support::small_known("tiny-llama")).open_in(folder_);
  const model::Blueprint blueprint_ = model::read(model_);
  std::vector<model::LinearInput> inputs_ = model::linear_inputs(blueprint_);
  Store store_{model_, blueprint_};
  ChannelFileOptions options_ = {.path = folder_.file("cache/channels")};
};

TEST_F(ChannelFileTest, ADiskThatRefusesTheFileIsASentenceWithAWayOut) {
  options_.path = "/dev/null/no-folder/channels";
  const std::string message = test::message_of<Error>([&] { open(); });
  EXPECT_NE(message.find("‹no-cache›"), std::string::npos) << message;
}

// The cache is not to blame for the model, nor would another place for it help.
TEST_F(ChannelFileTest, AModelThatIsCutShortMeanwhileIsNamedAlone) {
  options_.progress = [&](uint64_t done, uint64_t) {
    if (done == 0) std::filesystem::resize_file(model_.path(), 100);
  };
  const std::string message = test::message_of<Error>([&] { open(); });
  EXPECT_NE(message.find("became shorter"), std::string::npos) << message;
  EXPECT_EQ(message.find("‹no-cache›"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

TEST_F(ChannelFileTest, ColumnsThatAreMadeFewAtATimeAreTheSame) {
  (void)open();
  const std::string at_once = test::read_whole(options_.path);
  for (const size_t bytes : {size_t{1}, size_t{1000}}) {
    std::filesystem::remove(options_.path);
    options_.most_bytes_at_once = bytes;
    std::vector<const std::byte*> done;
    options_.done = [&](const Matrix& matrix) { done.push_back(matrix.data); };
    EXPECT_TRUE(open().is_new());
    EXPECT_TRUE(test::read_whole(options_.path) == at_once) << bytes;
    EXPECT_EQ(done.size(), inputs_[0].weights.size() + inputs_[1].weights.size());
  }
}

// The file has a page of tables, then pages of scales and pages of columns in turn, and the checks.
TEST_F(ChannelFileTest, DamagedScalesAndChecksAreMadeAgainAndDamagedColumnsAreSaid) {
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(problem(), "");
  const std::string good = test::read_whole(options_.path);
  constexpr size_t kPage = 4096;
  for (const size_t at : {size_t{32}, kPage, kPage + 100, good.size() - kPage,
                          good.size() - kPage + 8, good.size() - kPage + 100}) {
    spoil(at);
    EXPECT_NE(problem(), "") << at;
    EXPECT_TRUE(test::read_whole(options_.path) == good) << at;
  }
  for (const size_t at : {2 * kPage, 2 * kPage + 1000}) {
    spoil(at);
    const std::string message = test::message_of<Error>([&] { problem(); });
    EXPECT_TRUE(message.starts_with(options_.path + ": the weights of a channel are damaged"))
        << message;
    std::filesystem::remove(options_.path);
    EXPECT_EQ(problem(), "");
  }
}

}  // namespace
}  // namespace troika::weights
