#include "gguf/writer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/raw_gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace troika::gguf {
namespace {

using test::TempFolder;

void write_floats(Writer& writer, const std::vector<float>& values) {
  writer.write(std::as_bytes(std::span(values)));
}

TEST(Writer, WhatItWritesIsRead) {
  TempFolder folder;
  const std::string path = folder.file("a.gguf");
  {
    Writer writer(path, 64);
    writer.add_uint32("u32", 7);
    writer.add_uint64("u64", UINT64_MAX);
    writer.add_value("i32", Value{ValueType::kInt32, int64_t{-7}});
    writer.add_float32("f32", 0.5f);
    writer.add_bool("bool", true);
    writer.add_string("string", "text");
    writer.add_strings("strings", std::vector<std::string>{"a", "", "bc"});
    writer.add_floats("floats", std::vector<float>{1, 2.5f});
    writer.add_int32s("ints", std::vector<int32_t>{-1, 5});
    writer.add_tensor("a", tensor::Type::kF32, std::array<uint64_t, 2>{3, 2});
    writer.add_tensor("b", tensor::Type::kQ8_0, std::array<uint64_t, 1>{32});
    writer.begin_data();
    write_floats(writer, {1, 2});
    write_floats(writer, {3, 4, 5, 6});
    writer.write(std::vector<std::byte>(34, std::byte{9}));
    writer.finish();
  }
  const File file = File::open(path);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 64u);
  EXPECT_EQ(file.find_uint("u32"), 7u);
  EXPECT_EQ(file.find_uint("u64"), UINT64_MAX);
  EXPECT_EQ(file.find_int("i32"), -7);
  EXPECT_EQ(file.find_float("f32"), 0.5);
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.get_string("string"), "text");
  EXPECT_EQ(file.strings("strings"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.floats("floats"), (std::vector<float>{1, 2.5f}));
  EXPECT_EQ(file.ints("ints"), (std::vector<int64_t>{-1, 5}));
  const auto data = file.data(file.get_tensor("a"));
  EXPECT_EQ(reinterpret_cast<const float*>(data.data())[5], 6.0f);
  EXPECT_EQ(file.data(file.get_tensor("b"))[33], std::byte{9});
  EXPECT_EQ(file.file_bytes() % 64, 0u);
}

TEST(Writer, ValuesOfAnotherFileAreCopiedAsTheyAre) {
  test::RawGgufBytes b;
  b.header(3, 0, 14);
  b.scalar_entries();
  b.entry("nested", 9).u32(9).u64(1).u32(8).u64(2).string("a").string("b");
  b.entry("bools", 9).u32(7).u64(2).u8(1).u8(0);
  b.pad(32);
  TempFolder folder;
  const File source = File::parse(b.bytes(), "source");
  Writer writer(folder.file("a.gguf"));
  for (const File::Entry& entry : source.metadata()) writer.add_value(entry.key, entry.value);
  writer.begin_data();
  writer.finish();
  EXPECT_EQ(test::read_whole(folder.file("a.gguf")), b.text());
}

TEST(Writer, AnAbandonedFileLeavesNothing) {
  TempFolder folder;
  {
    Writer writer(folder.file("a.gguf"));
    writer.add_tensor("a", tensor::Type::kF32, std::array<uint64_t, 1>{8});
    writer.begin_data();
    write_floats(writer, {1, 2});
  }
  EXPECT_EQ(folder.n_files(), 0u);
}

TEST(Writer, AFullDiskIsASentenceAndLeavesNothing) {
  TempFolder folder;
  const std::string message = test::message_of<Error>([&] {
    const test::FileSizeLimit limit(4096);
    Writer writer(folder.file("a.gguf"));
    writer.add_tensor("a", tensor::Type::kF32, std::array<uint64_t, 1>{8192});
    writer.begin_data();
    write_floats(writer, std::vector<float>(8192));
    writer.finish();
  });
  EXPECT_NE(message.find("a.gguf: cannot write more than"), std::string::npos) << message;
  EXPECT_EQ(folder.n_files(), 0u);
}

TEST(WriterDeathTest, MisuseIsABug) {
  TempFolder folder;
  EXPECT_DEATH(
      {
        Writer writer(folder.file("a"));
        writer.add_uint32("a", 1);
        writer.add_uint32("a", 1);
      },
      "this is a bug");
  EXPECT_DEATH(
      {
        Writer writer(folder.file("a"));
        writer.add_tensor("a", tensor::Type::kF32, std::array<uint64_t, 1>{8});
        writer.begin_data();
        writer.finish();
      },
      "this is a bug");
}

}  // namespace
}  // namespace troika::gguf
