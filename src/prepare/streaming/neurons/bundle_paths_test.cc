#include "prepare/streaming/neurons/bundle_paths.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "model/architecture.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/bundle_maker.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika::prepare {
namespace {

constexpr uint64_t kModelKey = 17;

class BundlePaths : public testing::Test {
 protected:
  BundlePaths() {
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    test_support::TinyModel tiny = test_support::tiny_model("llama");
    tiny.type = test_support::kQ8_0;
    tiny.ffn_width = 2048;
    write_tiny_model(tiny, folder_.file("tiny.gguf"));
    file_ = std::make_unique<gguf::File>(gguf::File::open(folder_.file("tiny.gguf")));
    blueprint_ = model::read(*file_);
    weights_ = std::make_unique<weights::Store>(*file_, blueprint_);
  }
  ~BundlePaths() override { unsetenv("XDG_CACHE_HOME"); }

  BundleMaker maker(bool has_gates) const {
    std::vector<model::GatedFfn> ffns = model::gated_ffns(blueprint_);
    for (model::GatedFfn& ffn : ffns) ffn.has_gate_by_neuron = has_gates;
    return BundleMaker(ffns, *weights_, 1);
  }
  std::string path_of(bool has_gates) const {
    return bundle_file_path(*file_, maker(has_gates).key());
  }
  // Says whether the file of a form's bundles had to be made.
  bool makes(bool has_gates, uint64_t model_key = kModelKey) const {
    BundleMaker of_form = maker(has_gates);
    const weights::BundleFile::Options options = {path_of(has_gates), {model_key, of_form.key()}};
    return weights::BundleFile(options, of_form.shape(), of_form).is_new();
  }

  test::TempFolder folder_;
  std::unique_ptr<gguf::File> file_;
  model::Blueprint blueprint_;
  std::unique_ptr<weights::Store> weights_;
};

TEST_F(BundlePaths, P7EachFormHasAFileOfItsOwn) {
  EXPECT_NE(path_of(true), path_of(false));
  EXPECT_TRUE(makes(false));
  EXPECT_TRUE(makes(true));
  EXPECT_FALSE(makes(false));
  EXPECT_FALSE(makes(true));
}

TEST_F(BundlePaths, P7WhatNoRunReadsAnyMoreIsRemoved) {
  EXPECT_TRUE(remove_old_bundles(*file_, kModelKey).empty()) << "there is no folder yet";
  makes(false);
  makes(true, kModelKey + 1);  // is of another content of the model
  const std::string without_form = neuron_file_path("bundles", *file_);
  std::filesystem::copy_file(path_of(false), without_form);
  // Files of other kinds and of other models are none of its business.
  const std::string heat = neuron_file_path("heat", *file_);
  const std::string other = folder_.file("cache/troika/bundles-other.bin");
  test::write_whole(heat, "heat");
  test::write_whole(other, "bundles");
  // Nobody knows what is in a file that cannot be read.
  std::string unreadable = without_form;
  unreadable.insert(unreadable.size() - 4, "-12345678");
  std::filesystem::create_directory(unreadable);
  EXPECT_EQ(remove_old_bundles(*file_, kModelKey).size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(unreadable));
  EXPECT_FALSE(std::filesystem::exists(without_form));
  EXPECT_FALSE(std::filesystem::exists(path_of(true)));
  EXPECT_TRUE(std::filesystem::exists(heat));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_FALSE(makes(false));
}

}  // namespace
}  // namespace troika::prepare
