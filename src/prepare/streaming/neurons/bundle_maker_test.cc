// What is kept of a model's neurons is made of the model, not of what a damaged file left of it.
#include "prepare/streaming/neurons/bundle_maker.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "gguf/file.h"
#include "model/architecture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika::prepare {
namespace {

TEST(BundleMaker, P7AModelThatIsCutShortMeanwhileLeavesNoBundles) {
  const test::TempFolder folder;
  test_support::TinyModel tiny = test_support::tiny_model("llama");
  tiny.type = test_support::kQ8_0;
  tiny.ffn_width = 2048;
  const std::string path = folder.file("tiny.gguf");
  write_tiny_model(tiny, path);
  const std::string content = test::read_whole(path);
  const gguf::File file = gguf::File::open(path);
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  BundleMaker maker(model::gated_ffns(blueprint), weights, 1);
  const weights::BundleFile::Options options = {folder.file("bundles.bin"), {1, maker.key()}};
  const auto make = [&] { const weights::BundleFile made(options, maker.shape(), maker); };
  // Pages that were not read yet are lost.
  std::filesystem::resize_file(path, content.size() / 2);
  const std::string problem = test::message_of<Error>(make);
  EXPECT_NE(problem.find("became shorter"), std::string::npos) << problem;
  EXPECT_EQ(problem.find("‹ffn›"), std::string::npos) << problem;
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

}  // namespace
}  // namespace troika::prepare
