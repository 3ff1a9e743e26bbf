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

}  // namespace
}  // namespace troika::weights
