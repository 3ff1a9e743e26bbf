#include "convert/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "tests/support/hf_folder.h"
#include "tests/support/temp_folder.h"

namespace troika::convert {
namespace {

using test::message_of;

std::string with_header(const std::string& header, size_t data_bytes = 0) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, '\0');
}

std::string problem_of(const std::string& bytes) {
  return message_of<Error>(
      [&] { (void)SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "file"); });
}

TEST(Safetensors, ReadsTensorsAndTheirBytes) {
  const std::string bytes = with_header(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
      R"("a":{"shape":[2,2],"data_offsets":[0,8],"dtype":"F16"},)"
      R"("empty":{"dtype":"I64","shape":[0,7],"data_offsets":[8,8]},)"
      R"("one":{"dtype":"U8","shape":[],"data_offsets":[14,15]}}   )",
      15);
  const auto file = SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "file");
  ASSERT_EQ(file.tensors().size(), 4u);
  const SourceTensor& b = file.tensors()[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.n_elements(), 3u);
  EXPECT_EQ(b.data.size(), 6u);
  EXPECT_EQ(source_type(b, "file"), tensor::Type::kBF16);
  const SourceTensor& a = file.tensors()[1];
  EXPECT_EQ(a.shape, (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ(a.data.data() + 8, b.data.data());
  EXPECT_EQ(source_type(a, "file"), tensor::Type::kF16);
  EXPECT_EQ(file.tensors()[3].row_length(), 1u);
  EXPECT_NE(message_of<Error>([&] {
              (void)source_type(file.tensors()[3], "file");
            }).find("has the element type \"U8\"; F32, F16 and BF16"),
            std::string::npos);
}

struct Bad {
  const char* name;
  std::string header;
  size_t data_bytes;
  const char* problem;
};

class BadSafetensors : public testing::TestWithParam<Bad> {};

TEST_P(BadSafetensors, IsASentence) {
  const std::string message = problem_of(with_header(GetParam().header, GetParam().data_bytes));
  EXPECT_TRUE(message.starts_with("file: ")) << message;
  EXPECT_NE(message.find(GetParam().problem), std::string::npos) << message;
}

std::string tensor(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

INSTANTIATE_TEST_SUITE_P(
    Safetensors, BadSafetensors,
    testing::Values(
        Bad{"NoJson", "{]", 0, "no JSON"}, Bad{"Empty", "", 0, "no JSON"},
        Bad{"AList", "[]", 0, "a list where none belongs"},
        Bad{"MoreThanOne", "{}{}", 0, "no JSON"},
        Bad{"Deep", "{\"t\":" + std::string(100000, '['), 0, "a list where none belongs"},
        Bad{"DeepObjects", "{\"t\":{\"shape\":{", 0, "an object where none belongs"},
        Bad{"Text", "{\"t\":\"x\"}", 0, "a text where none belongs"},
        Bad{"Null", tensor(R"("dtype":null)"), 0, "a null"},
        Bad{"Negative", tensor(R"("shape":[-1])"), 0, "a negative number"},
        Bad{"Fraction", tensor(R"("shape":[1.5])"), 0, "a fraction"},
        Bad{"TooLarge", tensor(R"("shape":[99999999999999999999])"), 0, "a fraction"},
        Bad{"UnknownField", tensor(R"("stride":[1])"), 0, "the field \"stride\""},
        Bad{"FieldTwice", tensor(R"("dtype":"F32","dtype":"F32")"), 0, "the field \"dtype\""},
        Bad{"Incomplete", tensor(R"("dtype":"F32","shape":[1])"), 4, "without dtype"},
        Bad{"OneOffset", tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4,
            "without dtype"},
        Bad{"ThreeOffsets", tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), 4,
            "a number where none belongs"},
        Bad{"NineDimensions",
            tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4,
            "too many dimensions"},
        Bad{"NoName", R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
            "a name of a wrong length"},
        Bad{"NameTwice",
            R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8, "the name \"t\" stands there twice"},
        Bad{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", 0, "stands there twice"},
        Bad{"Backwards", tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 8,
            "ends before it begins"},
        Bad{"BeyondTheEnd", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 7,
            "was cut short"},
        Bad{"WrongSize", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
            "has 4 bytes of data"},
        Bad{"ElementsWrap",
            tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
            "more than 2^63 elements"},
        Bad{"BytesWrap",
            tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0,
            "bytes of data"},
        Bad{"Overlap",
            R"({"s":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
            R"("t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
            12, "the data of tensors \"t\" and \"s\" overlap"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, LengthsOfTheHeaderAreChecked) {
  EXPECT_NE(problem_of("1234567").find("too few"), std::string::npos);
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string bytes(10, ' ');
    std::memcpy(bytes.data(), &length, sizeof length);
    EXPECT_NE(problem_of(bytes).find("claims a header"), std::string::npos) << length;
  }
  EXPECT_NE(problem_of("version https://git-lfs.github.com").find("git lfs pull"),
            std::string::npos);
}

TEST(Safetensors, AFileThatIsCutShortInUseIsNoticed) {
  const test::TempFolder folder;
  test_support::RawTensor values{"F32", {2000}, std::string(8000, '\0')};
  test::write_whole(folder.file("x"), test_support::safetensors_bytes({{"t", values}}));
  const auto file = SafetensorsFile::open(folder.file("x"));
  file.check_intact();
  std::filesystem::resize_file(folder.file("x"), 100);
  EXPECT_NE(message_of<Error>([&] { file.check_intact(); }), "");
}

}  // namespace
}  // namespace troika::convert
