// Tries one wrong file for every refusal of the header's reader.
#include "gguf/header.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "tests/support/raw_gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace troika::gguf {
namespace {

using test::RawGgufBytes;

std::string refusal(const RawGgufBytes& b) {
  return test::message_of<Error>([&] { (void)read_header(b.bytes(), "m.gguf"); });
}

struct Case {
  const char* name;
  std::function<void(RawGgufBytes&)> build;
  const char* expected;  // is a part of the message
};

RawGgufBytes& one_entry(RawGgufBytes& b, const char* key, uint32_t type) {
  return b.header(3, 0, 1).entry(key, type);
}

const Case kCases[] = {
    {"Empty", [](RawGgufBytes&) {}, "the file is empty"},
    {"WrongMagic", [](RawGgufBytes& b) { b.magic("GGUX").zeros(64); }, "not a GGUF file"},
    {"Ggjt", [](RawGgufBytes& b) { b.magic("tjgg").zeros(64); }, "GGJT"},
    {"Zip", [](RawGgufBytes& b) { b.magic("PK\x03\x04").zeros(64); }, "PyTorch"},
    {"LfsPointer", [](RawGgufBytes& b) { b.magic("version https://git-lfs.github.com/spec/v1"); },
     "git lfs pull"},
    {"WebPage", [](RawGgufBytes& b) { b.magic("<!DOCTYPE html>"); }, "web page"},
    {"MagicAlone", [](RawGgufBytes& b) { b.magic("GGUF"); }, "cut short"},
    {"HalfMagic", [](RawGgufBytes& b) { b.magic("GG"); }, "cut short"},
    {"Version0", [](RawGgufBytes& b) { b.header(0, 0, 0); }, "version 0, which is no longer read"},
    {"Version1", [](RawGgufBytes& b) { b.header(1, 0, 0); }, "version 1, which is no longer read"},
    {"Version4", [](RawGgufBytes& b) { b.header(4, 0, 0); }, "reads versions 2 and 3"},
    {"BigEndian", [](RawGgufBytes& b) { b.header(0x03000000, 0, 0); }, "big-endian"},
    {"TooManyEntries", [](RawGgufBytes& b) { b.header(3, 0, UINT64_MAX); }, "cut short"},
    {"TooManyTensors", [](RawGgufBytes& b) { b.header(3, UINT64_MAX, 0); }, "cut short"},
    {"HugeKey", [](RawGgufBytes& b) { b.header(3, 0, 1).u64(uint64_t{1} << 62).zeros(99); },
     "cut short"},
    {"EmptyKey", [](RawGgufBytes& b) { one_entry(b, "", 0).u8(1); }, "a metadata key"},
    {"LongKey", [](RawGgufBytes& b) { one_entry(b, std::string(70000, 'k').c_str(), 0).u8(1); },
     "has 70000 bytes"},
    {"DuplicateKey",
     [](RawGgufBytes& b) { b.header(3, 0, 2).entry("a", 0).u8(1).entry("a", 0).u8(1); },
     "the metadata key \"a\" stands there twice"},
    {"UnknownType", [](RawGgufBytes& b) { one_entry(b, "a", 13).zeros(99); }, "unknown type 13"},
    {"WrongBool", [](RawGgufBytes& b) { one_entry(b, "a", 7).u8(2); }, "neither 0 nor 1"},
    {"WrongBoolInArray", [](RawGgufBytes& b) { one_entry(b, "a", 9).u32(7).u64(2).u8(1).u8(2); },
     "neither 0 nor 1"},
    {"HugeString", [](RawGgufBytes& b) { one_entry(b, "a", 8).u64(UINT64_MAX).zeros(9); },
     "inside of \"a\""},
    {"HugeArray", [](RawGgufBytes& b) { one_entry(b, "a", 9).u32(10).u64(uint64_t{1} << 61); },
     "claims 2305843009213693952 elements"},
    {"HugeArrayOfStrings",
     [](RawGgufBytes& b) { one_entry(b, "a", 9).u32(8).u64(UINT64_MAX).zeros(64); }, "cut short"},
    {"HugeArrayOfArrays",
     [](RawGgufBytes& b) { one_entry(b, "a", 9).u32(9).u64(UINT64_MAX).zeros(64); }, "cut short"},
    {"ArrayOfUnknown", [](RawGgufBytes& b) { one_entry(b, "a", 9).u32(77).u64(1).zeros(64); },
     "elements of unknown type 77"},
    {"DeepArrays",
     [](RawGgufBytes& b) {
       one_entry(b, "a", 9);
       for (int i = 0; i < 100000; ++i) b.u32(9).u64(1);
     },
     "nested deeper than 8"},
    {"AlignmentZero", [](RawGgufBytes& b) { one_entry(b, "general.alignment", 4).u32(0); },
     "no power of two"},
    {"AlignmentOdd", [](RawGgufBytes& b) { one_entry(b, "general.alignment", 4).u32(48); },
     "no power of two"},
    {"AlignmentHuge",
     [](RawGgufBytes& b) { one_entry(b, "general.alignment", 10).u64(uint64_t{1} << 63); },
     "no power of two"},
    {"AlignmentText", [](RawGgufBytes& b) { one_entry(b, "general.alignment", 8).string("32"); },
     "no power of two"},
    {"EmptyTensorName", [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("", {1}, 0, 0); },
     "a tensor name"},
    {"DuplicateTensor",
     [](RawGgufBytes& b) {
       b.header(3, 2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).zeros(256);
     },
     "tensor \"t\" stands there twice"},
    {"FiveDimensions",
     [](RawGgufBytes& b) {
       b.header(3, 1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).zeros(256);
     },
     "5 dimensions"},
    {"ManyDimensions", [](RawGgufBytes& b) { b.header(3, 1, 0).string("t").u32(UINT32_MAX); },
     "4294967295 dimensions"},
    {"DimensionZero",
     [](RawGgufBytes& b) {
       b.header(3, 1, 0).tensor("t", {4, 0}, 0, 0).zeros(256);
     },
     "dimension of length 0"},
    {"HugeProduct",
     [](RawGgufBytes& b) {
       b.header(3, 1, 0).tensor("t", {uint64_t{1} << 60, uint64_t{1} << 60}, 0, 0).zeros(256);
     },
     "more than 2^63 elements"},
    {"ProductThatWrapsToSmall",
     [](RawGgufBytes& b) {
       b.header(3, 1, 0).tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0).zeros(256);
     },
     "more than 2^63 elements"},
    {"HugeBytes",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {uint64_t{1} << 62}, 0, 0).zeros(256); },
     "more than 2^63 bytes"},
    {"HugeDimension",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {uint64_t{1} << 60}, 0, 0).zeros(256); },
     "beyond the end of the file"},
    {"HalfBlock",
     [](RawGgufBytes& b) {
       b.header(3, 1, 0).tensor("t", {48, 2}, 2, 0).zeros(256);
     },
     "no multiple of the 32 of a Q4_0 block"},
    {"UnalignedOffset",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {1}, 0, 4).zeros(256); },
     "no multiple of the alignment 32"},
    {"OffsetBeyondTheEnd",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {1}, 0, 1 << 20).pad(32).zeros(256); },
     "beyond the end of the file"},
    {"OffsetThatWraps",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {16}, 0, UINT64_MAX - 31).zeros(256); },
     "beyond the end of the file"},
    {"DataBeyondTheEnd",
     [](RawGgufBytes& b) { b.header(3, 1, 0).tensor("t", {65}, 0, 0).pad(32).zeros(256); },
     "beyond the end of the file"},
    {"Overlap",
     [](RawGgufBytes& b) {
       b.header(3, 2, 0).tensor("t", {9}, 0, 0).tensor("u", {1}, 0, 32).pad(32).zeros(256);
     },
     "the data of tensors \"t\" and \"u\" overlap"},
    {"OverlapOutOfOrder",
     [](RawGgufBytes& b) {
       b.header(3, 2, 0).tensor("u", {1}, 0, 32).tensor("t", {9}, 0, 0).pad(32).zeros(256);
     },
     "the data of tensors \"t\" and \"u\" overlap"},
    {"SamePlaceUnknownTypes",
     [](RawGgufBytes& b) {
       b.header(3, 2, 0).tensor("t", {9}, 16, 32).tensor("u", {1}, 16, 32).pad(32).zeros(256);
     },
     "overlap"},
};

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, IsASentenceThatNamesFileAndProblem) {
  RawGgufBytes b;
  GetParam().build(b);
  const std::string message = refusal(b);
  EXPECT_TRUE(message.starts_with("m.gguf: ")) << message;
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

// Returns one of many names that the hash of libstdc++, MurmurHash64A with a fixed seed, maps to 0:
// each step of it can be undone, so the second half follows from the first.
std::string name_of_hash_zero(uint64_t first) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995, kSeed = 0xc70f6907;
  const auto mix = [](uint64_t value) { return value ^ (value >> 47); };
  uint64_t inverse = kFactor;  // modulo 2^64; each round doubles the bits that are right
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  const uint64_t state = ((kSeed ^ (16 * kFactor)) ^ (mix(first * kFactor) * kFactor)) * kFactor;
  const uint64_t second = mix(state * inverse) * inverse;
  std::string name(reinterpret_cast<const char*>(&first), sizeof first);
  return name.append(reinterpret_cast<const char*>(&second), sizeof second);
}

// In a table of such hashes each name would be compared with all others, for minutes.
TEST(Header, NamesOfOneHashAreReadLikeAnyOthers) {
#ifdef __GLIBCXX__
  ASSERT_EQ(std::hash<std::string>()(name_of_hash_zero(7)), 0u);
#endif
  constexpr uint64_t kEntries = 200'000;
  RawGgufBytes b;
  b.header(3, 0, kEntries);
  for (uint64_t i = 0; i < kEntries; ++i) b.entry(name_of_hash_zero(i), 0).u8(1);
  const std::string bytes = b.text();
  const Header header = read_header(std::as_bytes(std::span(bytes)), "m.gguf");
  EXPECT_EQ(header.entry_by_key.size(), kEntries);
  EXPECT_EQ(header.entry_by_key.at(header.metadata[123'456].key), 123'456u);
}

INSTANTIATE_TEST_SUITE_P(Header, Refusal, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace troika::gguf
