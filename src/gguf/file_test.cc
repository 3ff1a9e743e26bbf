#include "gguf/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "tests/support/raw_gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace troika::gguf {
namespace {

using test::message_of;
using test::RawGgufBytes;

// Returns a file with one entry of each type, arrays of scalars, of strings and of arrays, and two
// tensors.
RawGgufBytes good_file(uint32_t version = 3) {
  RawGgufBytes b;
  b.header(version, 2, 16);
  b.scalar_entries();
  b.entry("ints", 9).u32(5).u64(3).u32(1).u32(2).u32(static_cast<uint32_t>(-3));
  b.entry("floats", 9).u32(6).u64(2).f32(0.5f).f32(-1.0f);
  b.entry("strings", 9).u32(8).u64(3).string("a").string("").string("bc");
  b.entry("nested", 9).u32(9).u64(2);
  b.u32(0).u64(2).u8(1).u8(2);
  b.u32(9).u64(1).u32(8).u64(1).string("deep");
  b.tensor("first", {3, 2}, 0, 0);
  b.tensor("second", {32}, 2, 32);
  b.pad(32).zeros(24).pad(32).zeros(18);
  return b;
}

TEST(File, ReadsEveryMetadataType) {
  for (const uint32_t version : {2u, 3u}) {
    const RawGgufBytes b = good_file(version);
    const File file = File::parse(b.bytes(), "good");
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata().size(), 16u);
    EXPECT_EQ(file.metadata()[4].key, "u32");
    EXPECT_EQ(file.find_uint("u8"), 200u);
    EXPECT_EQ(file.find_int("i8"), -1);
    EXPECT_EQ(file.find_uint("u16"), 0x0201u);
    EXPECT_EQ(file.find_int("i16"), -2);
    EXPECT_EQ(file.find_uint("u32"), 4000000000u);
    EXPECT_EQ(file.find_int("i32"), -7);
    EXPECT_EQ(file.find_float("f32"), 1.5);
    EXPECT_EQ(file.find_bool("bool"), true);
    EXPECT_EQ(file.get_string("string"), "text");
    EXPECT_EQ(file.find_uint("u64"), UINT64_MAX);
    EXPECT_EQ(file.find_int("i64"), -9);
    EXPECT_EQ(file.find_float("f64"), 2.5);
    EXPECT_EQ(file.find_float("i32"), -7.0);
    EXPECT_EQ(file.ints("ints"), (std::vector<int64_t>{1, 2, -3}));
    EXPECT_EQ(file.floats("floats"), (std::vector<float>{0.5f, -1.0f}));
    EXPECT_EQ(file.floats("ints"), (std::vector<float>{1, 2, -3}));
    EXPECT_EQ(file.strings("strings"), (std::vector<std::string_view>{"a", "", "bc"}));
  }
}

TEST(File, NestedArraysCanBeWalked) {
  const RawGgufBytes b = good_file();
  const File file = File::parse(b.bytes(), "good");
  const auto outer = elements(std::get<Array>(file.find("nested")->data), 10);
  ASSERT_EQ(outer.size(), 2u);
  const auto bytes = elements(std::get<Array>(outer[0].data), 10);
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_EQ(std::get<uint64_t>(bytes[1].data), 2u);
  const auto inner = elements(std::get<Array>(outer[1].data), 10);
  const auto strings = elements(std::get<Array>(inner.at(0).data), 10);
  EXPECT_EQ(std::get<std::string_view>(strings.at(0).data), "deep");
  EXPECT_EQ(elements(std::get<Array>(file.find("strings")->data), 2).size(), 2u);
}

// A byte of the file becomes eight or more in memory.
TEST(File, ArraysOfTooManyElementsAreNotRead) {
  RawGgufBytes b;
  b.header(3, 0, 1);
  b.entry("types", 9).u32(0).u64((uint64_t{1} << 26) + 1).zeros((uint64_t{1} << 26) + 1);
  const File file = File::parse(b.bytes(), "big");
  const std::string message = message_of<Error>([&] { (void)file.ints("types"); });
  EXPECT_NE(message.find("at most 67108864 are read"), std::string::npos) << message;
}

TEST(File, FindsTensorsAndTheirBytes) {
  const RawGgufBytes b = good_file();
  const File file = File::parse(b.bytes(), "good");
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorInfo& first = file.get_tensor("first");
  EXPECT_EQ(first.type, tensor::Type::kF32);
  EXPECT_EQ(first.row_length(), 3u);
  EXPECT_EQ(first.n_rows(), 2u);
  EXPECT_EQ(first.bytes, 24u);
  EXPECT_EQ(file.data(first).data(), b.bytes().data() + file.shards()[0].data_offset);
  EXPECT_EQ(file.data(file.get_tensor("second")).size(), 18u);
  EXPECT_EQ(file.find_tensor("third"), nullptr);
  EXPECT_EQ(message_of<Error>([&] { (void)file.get_tensor("third"); }),
            "good: tensor \"third\" is missing; convert the model again.");
}

TEST(File, MissingKeysAreEmptyOrASentence) {
  const RawGgufBytes b = good_file();
  const File file = File::parse(b.bytes(), "good");
  EXPECT_EQ(file.find("no"), nullptr);
  EXPECT_FALSE(file.find_uint("no") || file.find_int("no") || file.find_float("no") ||
               file.find_bool("no") || file.find_string("no"));
  EXPECT_TRUE(file.strings("no").empty() && file.ints("no").empty() && file.floats("no").empty());
  EXPECT_EQ(message_of<Error>([&] { (void)file.get_string("no"); }),
            "good: the metadata \"no\" is missing; convert the model again.");
}

TEST(File, WrongTypesAndRangesAreSentences) {
  const RawGgufBytes b = good_file();
  const File file = File::parse(b.bytes(), "good");
  EXPECT_EQ(message_of<Error>([&] { (void)file.find_uint("string"); }),
            "good: the metadata \"string\" has type string where a whole number is expected; "
            "convert the model again.");
  EXPECT_EQ(message_of<Error>([&] { (void)file.find_uint("i8"); }),
            "good: the metadata \"i8\" is out of range; convert the model again.");
  EXPECT_THROW((void)file.find_int("u64"), Error);
  EXPECT_THROW((void)file.find_uint("bool"), Error);
  EXPECT_THROW((void)file.find_uint("f32"), Error);
  EXPECT_THROW((void)file.find_bool("u8"), Error);
  EXPECT_THROW((void)file.get_string("ints"), Error);
  EXPECT_THROW((void)file.find_float("string"), Error);
  EXPECT_THROW((void)file.strings("string"), Error);
  EXPECT_THROW((void)file.strings("ints"), Error);
  EXPECT_THROW((void)file.ints("floats"), Error);
  EXPECT_THROW((void)file.floats("nested"), Error);
}

TEST(File, UnsupportedElementTypesMayStandInTheDirectory) {
  RawGgufBytes b;
  b.header(3, 2, 0).tensor("a", {256}, 16, 0).tensor("b", {8}, 999, 96).pad(32).zeros(128);
  const File file = File::parse(b.bytes(), "odd");
  EXPECT_EQ(file.tensors()[0].bytes, 0u);
  const std::string message = message_of<Error>([&] { (void)file.data(file.tensors()[0]); });
  EXPECT_NE(message.find("tensor \"a\" has the element type IQ2_XXS"), std::string::npos)
      << message;
  EXPECT_NE(message.find("It knows F32, "), std::string::npos) << message;
  EXPECT_NE(message_of<Error>([&] { (void)file.data(file.tensors()[1]); }).find("(999)"),
            std::string::npos);
}

TEST(File, AlignmentIsTaken) {
  RawGgufBytes b;
  b.header(3, 2, 1).entry("general.alignment", 4).u32(128);
  b.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 128).pad(128).f32(1).pad(128).f32(2);
  const File file = File::parse(b.bytes(), "aligned");
  EXPECT_EQ(file.alignment(), 128u);
  EXPECT_EQ(file.shards()[0].data_offset % 128, 0u);
  EXPECT_EQ(std::to_integer<int>(file.data(file.tensors()[1])[3]), 0x40);
}

TEST(File, AVocabularyAloneNeedsNoPadding) {
  RawGgufBytes b;
  b.header(3, 0, 1).entry("a", 8).string("x");
  EXPECT_EQ(File::parse(b.bytes(), "vocabulary").get_string("a"), "x");
}

TEST(File, EveryTruncationIsASentence) {
  const RawGgufBytes b = good_file();
  for (size_t n = 0; n < b.bytes().size(); ++n) {
    const std::string message =
        message_of<Error>([&] { (void)File::parse(b.bytes().first(n), "short"); });
    EXPECT_TRUE(message.starts_with("short: ")) << n << ": " << message;
  }
}

TEST(File, TruncationWhileMappedIsASentence) {
  test::TempFolder folder;
  RawGgufBytes b;
  b.header(3, 1, 0).tensor("a", {65536 * 4}, 0, 0).pad(32).zeros(65536 * 16);
  test::write_whole(folder.file("m.gguf"), b.text());
  const File file = File::open(folder.file("m.gguf"));
  file.check_intact();
  ASSERT_EQ(truncate(folder.file("m.gguf").c_str(), 65536), 0);
  EXPECT_EQ(std::to_integer<int>(file.data(file.tensors()[0])[65536 * 8]), 0);
  EXPECT_NE(message_of<Error>([&] { file.check_intact(); }).find("became shorter"),
            std::string::npos);
}

TEST(File, ReadsRealModels) {
  const char* data = std::getenv("TROIKA_DATA");
  if (data == nullptr) GTEST_SKIP() << "TROIKA_DATA is not set: no real model to read.";
  const File file = File::open(std::string(data) + "/models/stories260K.gguf");
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_FALSE(file.tensors().empty());
  for (const TensorInfo& tensor : file.tensors()) EXPECT_EQ(file.data(tensor).size(), tensor.bytes);
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").size(), 512u);
}

}  // namespace
}  // namespace troika::gguf
