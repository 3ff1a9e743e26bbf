// A predictor's file is used where it is one, and refused in words where it is not.
#include "weights/neurons/predictor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::weights {
namespace {

TEST(NeuronPredictor, P3APipeInThePlaceOfTheFileIsRefusedAtOnce) {
  const test::TempFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string about_info = test::message_of<Error>([&] { NeuronPredictor::info(path, 1); });
  EXPECT_NE(about_info.find("is no regular file. Make it again"), std::string::npos) << about_info;
  EXPECT_EQ(test::message_of<Error>([&] { NeuronPredictor::read(path, 1); }), about_info);
}

}  // namespace
}  // namespace troika::weights
