#include "gguf/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tests/support/split_model.h"
#include "tests/support/temp_folder.h"

namespace troika::gguf {
namespace {

using test::message_of;
using test::TempFolder;
using test_support::split_model;

// Writes a file of five tensors of different sizes.
void write_model(const std::string& path, float first, const char* name = "whole") {
  Writer writer(path, 64);
  writer.add_string("general.name", name);
  std::vector<std::vector<float>> data;
  for (size_t i = 0; i < 5; ++i) {
    data.emplace_back(8 * (i + 1), first + static_cast<float>(i));
    writer.add_tensor("t" + std::to_string(i), tensor::Type::kF32,
                      std::vector<uint64_t>{data.back().size()});
  }
  writer.begin_data();
  for (const auto& values : data) writer.write(std::as_bytes(std::span(values)));
  writer.finish();
}

class SplitTest : public testing::Test {
 protected:
  SplitTest() { write_model(folder_.file("whole.gguf"), 1.0F); }

  std::string path(const char* name) const { return folder_.file(name); }
  std::vector<std::string> split(uint32_t n, bool is_first_empty = false,
                                 const test_support::SplitFlaws& flaws = {}) {
    return split_model(path("whole.gguf"), path("m"), n, is_first_empty, flaws);
  }
  static std::string problem(const std::string& path) {
    return message_of<Error>([&] { (void)File::open(path); });
  }
  static void expect_problem(const std::string& path, const std::string& wanted) {
    const std::string message = problem(path);
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  }

  TempFolder folder_;
};

TEST(ShardName, IsReadFromTheEnd) {
  const auto name = parse_shard_name("a/b-00001-of-00002-00012-of-00345.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a/b-00001-of-00002");
  EXPECT_EQ(name->number, 12u);
  EXPECT_EQ(name->count, 345u);
  EXPECT_EQ(name->path_of(7), "a/b-00001-of-00002-00007-of-00345.gguf");
  for (const char* other :
       {"", ".gguf", "m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf",
        "m-00003-of-00002.gguf", "m-0001-of-0002.gguf", "m-0000x-of-00002.gguf",
        "m-00001_of-00002.gguf", "m-00001-of-00002.ggu", "m-00001-of-99999.gguf",
        "m-+0001-of-00002.gguf", "m-00001-of-0000 .gguf"}) {
    EXPECT_FALSE(parse_shard_name(other)) << other;
  }
}

TEST_F(SplitTest, EveryShardOpensTheWholeModel) {
  const File whole = File::open(path("whole.gguf"));
  ASSERT_EQ(whole.shards().size(), 1u);
  for (const bool is_first_empty : {false, true}) {
    for (const std::string& shard : split(3, is_first_empty)) {
      const File file = File::open(shard);
      EXPECT_EQ(file.path(), path("m-00001-of-00003.gguf"));
      ASSERT_EQ(file.shards().size(), 3u);
      EXPECT_EQ(file.shards()[2].path, path("m-00003-of-00003.gguf"));
      EXPECT_EQ(file.get_string("general.name"), "whole");
      uint64_t bytes = 0;
      for (const auto& p : file.shards()) bytes += std::filesystem::file_size(p.path);
      EXPECT_EQ(file.file_bytes(), bytes);
      ASSERT_EQ(file.tensors().size(), whole.tensors().size());
      for (const TensorInfo& tensor : whole.tensors()) {
        const auto wanted = whole.data(tensor);
        const auto found = file.data(file.get_tensor(tensor.name));
        ASSERT_EQ(found.size(), wanted.size());
        EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size()), 0) << tensor.name;
      }
    }
  }
}

TEST_F(SplitTest, MissingShardsAreNamed) {
  const auto shards = split(3);
  std::filesystem::remove(shards[1]);
  EXPECT_EQ(problem(shards[0]), shards[0] +
                                    ": the model is split over 3 files, and 1 of them is not "
                                    "there: " +
                                    shards[1] +
                                    ". Download the missing ones into the same folder.");
  EXPECT_EQ(problem(shards[2]).substr(shards[2].size()),
            problem(shards[0]).substr(shards[0].size()));
  expect_problem(shards[1], "cannot open it");
  std::filesystem::remove(shards[0]);
  expect_problem(shards[2], "2 of them are not there");
}

TEST_F(SplitTest, ARenamedShardIsASentence) {
  const auto shards = split(3);
  std::filesystem::rename(shards[0], path("other.gguf"));
  expect_problem(path("other.gguf"), "part 1 of a model that is split over 3 files. Put all of");
  std::filesystem::rename(path("other.gguf"), path("m-00001-of-00001.gguf"));
  expect_problem(path("m-00001-of-00001.gguf"), "is split over 3 files");
  // One shard stands in place of another, so that it is there twice.
  std::filesystem::copy_file(shards[1], shards[0]);
  expect_problem(shards[2], "is part 2 of a model that is split over 3 files");
  const auto again = split(3);
  std::filesystem::copy_file(again[1], again[2], std::filesystem::copy_options::overwrite_existing);
  expect_problem(again[0], "by its header it is part 2 of 3, by its name part 3 of 3");
}

TEST_F(SplitTest, AWholeModelUnderTheShardsNameIsASentence) {
  std::filesystem::copy_file(path("whole.gguf"), path("w-00001-of-00001.gguf"));
  EXPECT_EQ(problem(path("w-00001-of-00001.gguf")), "");
  std::filesystem::copy_file(path("whole.gguf"), path("w-00001-of-00002.gguf"));
  std::filesystem::copy_file(path("whole.gguf"), path("w-00002-of-00002.gguf"));
  expect_problem(path("w-00002-of-00002.gguf"), "one of 2 parts, but it holds a whole model");
}

TEST_F(SplitTest, AShardOfAnotherModelIsASentence) {
  for (const uint32_t flawed : {2u, 3u}) {
    expect_problem(split(3, false, {.n_tensors_off = 1, .flawed = flawed})[0],
                   "belongs to another model than");
    expect_problem(split(3, false, {.count_off = 1, .flawed = flawed})[1], "of 4, by its name");
  }
  expect_problem(split(3, false, {.number_off = 7, .flawed = 1})[0], "but not which");
  expect_problem(split(3, false, {.n_tensors_off = 1, .flawed = 1})[0], "another model than");
  // All shards say that the model has 5 tensors, but they do not hold these 5.
  write_model(path("b.gguf"), 5.0F);
  const auto shards = split(2);
  const auto others = split_model(path("b.gguf"), path("n"), 2, true);
  std::filesystem::copy_file(others[1], shards[1],
                             std::filesystem::copy_options::overwrite_existing);
  expect_problem(shards[0], "stands in " + shards[0] + " too");
  std::filesystem::copy_file(split(2)[1], others[1],
                             std::filesystem::copy_options::overwrite_existing);
  expect_problem(others[0], "hold 3 tensors, where the model has 5");
}

TEST_F(SplitTest, ADamagedShardIsNamed) {
  const auto shards = split(3);
  std::filesystem::resize_file(shards[2], std::filesystem::file_size(shards[2]) - 64);
  expect_problem(shards[0], shards[2] + ": the data of tensor");
  test::write_whole(shards[1], "no model");
  expect_problem(shards[0], shards[1] + ": it is not a GGUF file");
  std::filesystem::remove(shards[1]);
  std::filesystem::create_directory(shards[1]);
  expect_problem(shards[0], shards[1]);
}

TEST_F(SplitTest, AShardThatIsCutShortInUseIsNoticed) {
  const auto shards = split(2);
  const File file = File::open(shards[0]);
  file.check_intact();
  std::filesystem::resize_file(shards[1], 10);
  EXPECT_NE(message_of<Error>([&] { file.check_intact(); }).find(shards[1]), std::string::npos);
}

TEST_F(SplitTest, BytesOfOneShardAreRefused) {
  const auto shards = split(2);
  const std::string bytes = test::read_whole(shards[0]);
  EXPECT_NE(message_of<Error>([&] {
              (void)File::parse(std::as_bytes(std::span(bytes)), "memory");
            }).find("memory: it is part 1 of a model that is split over 2 files"),
            std::string::npos);
}

}  // namespace
}  // namespace troika::gguf
