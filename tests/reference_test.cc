// The reference is checked on cases that can be computed by hand, and on a trained model.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/reference/decode.h"
#include "tests/reference/forward.h"

namespace troika::reference {
namespace {

TEST(ReferenceDecode, HalfPrecision) {
  EXPECT_EQ(decode_half(0x3c00), 1.0);
  EXPECT_EQ(decode_half(0xc000), -2.0);
  EXPECT_EQ(decode_half(0x7bff), 65504.0);
  EXPECT_EQ(decode_half(0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(decode_half(0x3555), 1365.0 / 4096);
  EXPECT_TRUE(std::isinf(decode_half(0x7c00)));
  EXPECT_TRUE(std::isnan(decode_half(0x7c01)));
}

TEST(ReferenceDecode, BFloat16IsTheUpperHalfOfAFloat) {
  const uint8_t bytes[] = {0x80, 0x3f, 0x49, 0xc0};
  EXPECT_EQ(decode(kBF16, bytes, 2), (std::vector<double>{1.0, -3.140625}));
}

TEST(ReferenceDecode, Q4_0) {
  std::vector<uint8_t> block(18, 0x88);  // each nibble is 8, which means zero
  block[0] = 0x00, block[1] = 0x38;      // d = 0.5
  block[2] = 0xf0;                       // element 0: nibble 0; element 16: nibble 15
  std::vector<double> expected(32, 0.0);
  expected[0] = -4, expected[16] = 3.5;
  EXPECT_EQ(decode(kQ4_0, block.data(), 32), expected);
}

TEST(ReferenceDecode, Q5_0) {
  std::vector<uint8_t> block(22, 0);
  block[0] = 0x00, block[1] = 0x3c;  // d = 1
  block[2] = 0x02, block[5] = 0x80;  // the fifth bits of elements 1 and 31
  block[6] = 0x03;                   // element 0: 3
  block[21] = 0xf0;                  // element 31: 15
  std::vector<double> expected(32, -16.0);
  expected[0] = -13, expected[1] = 0, expected[31] = 15;
  EXPECT_EQ(decode(kQ5_0, block.data(), 32), expected);
}

TEST(ReferenceDecode, Q8_0) {
  std::vector<uint8_t> block(34, 0);
  block[0] = 0x00, block[1] = 0x40;  // d = 2
  block[2] = 0x80, block[33] = 0x7f;
  std::vector<double> expected(32, 0.0);
  expected[0] = -256, expected[31] = 254;
  EXPECT_EQ(decode(kQ8_0, block.data(), 32), expected);
}

TEST(ReferenceDecode, Q4_KUnpacksItsSixBitScales) {
  std::vector<uint8_t> block(144, 0);
  block[1] = 0x3c;                 // d = 1
  block[3] = 0x38;                 // dmin = 0.5
  block[4 + 1] = 0x80 | 5;         // scale of group 1: 5; upper bits of scale 5: 2
  block[4 + 5] = 0x40 | 7;         // minimum of group 1: 7; upper bits of minimum 5: 1
  block[4 + 9] = 0x93;             // group 5: scale 2*16+3, minimum 1*16+9
  block[16 + 0] = 0x20;            // group 1, element 0: 2
  block[16 + 2 * 32 + 31] = 0xf0;  // group 5, element 31: 15
  std::vector<double> expected(256, 0.0);
  for (int i = 0; i < 32; ++i) expected[32 + i] = -3.5, expected[160 + i] = -12.5;
  expected[32] += 5 * 2, expected[160 + 31] += 35 * 15;
  EXPECT_EQ(decode(kQ4_K, block.data(), 256), expected);
}

TEST(ReferenceDecode, Q6_KFindsItsSixBits) {
  std::vector<uint8_t> block(210, 0);
  block[209] = 0x3c;                              // d = 1
  block[192 + 2] = 1, block[192 + 14] = 0xff;     // scales of elements 32..47: 1; 224..239: -1
  block[32] = 0x0b, block[128] = 0x08;            // element 32: 11 + 16 * 2
  block[64 + 32] = 0x50, block[128 + 32] = 0xc0;  // element 224: 5 + 16 * 3
  std::vector<double> expected(256, 0.0);
  for (int i = 0; i < 16; ++i) expected[32 + i] = -32, expected[224 + i] = 32;
  expected[32] += 43, expected[224] -= 53;
  std::vector<double> values = decode(kQ6_K, block.data(), 256);
  EXPECT_EQ(values, expected);
}

TEST(ReferenceDecode, Q4_1AndQ5_1AddTheLeastValue) {
  std::vector<uint8_t> block(20, 0);
  block[1] = 0x3c, block[3] = 0xc0;  // d = 1, m = -2
  block[4] = 0xf3;                   // element 0: 3; element 16: 15
  std::vector<double> expected(32, -2.0);
  expected[0] = 1, expected[16] = 13;
  EXPECT_EQ(decode(kQ4_1, block.data(), 32), expected);
  block.insert(block.begin() + 4, {1, 0, 0, 0});  // the fifth bit of element 0
  expected[0] = 17;
  EXPECT_EQ(decode(kQ5_1, block.data(), 32), expected);
}

TEST(ReferenceDecode, Q2_KHasFourBitScalesAndMinima) {
  std::vector<uint8_t> block(84, 0);
  block[81] = 0x3c, block[83] = 0x38;  // d = 1, dmin = 0.5
  block[3] = 0x45, block[15] = 0x01;   // group 3: scale 5, minimum 4; group 15: scale 1
  block[16 + 31] = 0x08;               // element 32 + 31, in group 3: 2
  block[16 + 63] = 0xc0;               // element 255: 3
  std::vector<double> expected(256, 0.0);
  for (int i = 48; i < 64; ++i) expected[i] = -2;
  expected[63] += 10, expected[255] = 3;
  EXPECT_EQ(decode(kQ2_K, block.data(), 256), expected);
}

TEST(ReferenceDecode, Q3_KFindsItsThreeBitsAndSixBitScales) {
  std::vector<uint8_t> block(110, 0);
  block[109] = 0x3c;  // d = 1
  for (int i = 96; i < 104; ++i) block[i] = 0;
  for (int i = 104; i < 108; ++i) block[i] = 0xaa;  // each scale is 32, so no element counts
  block[104 + 1] = 0xa6;                            // group 5 (bits 2 and 3) has 1 instead of 2
  block[96 + 5] = 0x0f;                             // low bits of group 5: 15; scale 31 - 32 = -1
  block[5] = 0x04;                                  // third bit of element 2 * 32 + 5, in group 4
  block[16] = 0x04, block[32 + 16] = 0x30;          // element 64 + 16, in group 5: 4 + 3
  std::vector<double> expected(256, 0.0);
  for (int i = 80; i < 96; ++i) expected[i] = 4;
  expected[80] = -3;
  std::vector<double> values = decode(kQ3_K, block.data(), 256);
  for (double& value : values) value += 0.0;  // removes negative zeros
  EXPECT_EQ(values, expected);
}

TEST(ReferenceDecode, Q5_KAddsAFifthBit) {
  std::vector<uint8_t> block(176, 0);
  block[1] = 0x3c;            // d = 1
  block[4 + 3] = 2;           // scale of group 3: 2
  block[16 + 7] = 0x08;       // the fifth bit of element 7 of group 3
  block[48 + 32 + 7] = 0x50;  // the low four bits of that element: 5
  std::vector<double> expected(256, 0.0);
  expected[96 + 7] = 2 * 21;
  EXPECT_EQ(decode(kQ5_K, block.data(), 256), expected);
}

TEST(ReferenceDecode, CodebooksOfIQ4AndMXFP4) {
  std::vector<uint8_t> block(18, 0x88);  // each nibble is 8, which means the integer 1
  block[0] = 0x00, block[1] = 0x40;      // d = 2
  block[2] = 0xf0;                       // element 0: -127; element 16: 113
  std::vector<double> expected(32, 2.0);
  expected[0] = -254, expected[16] = 226;
  EXPECT_EQ(decode(kIQ4_NL, block.data(), 32), expected);

  std::vector<uint8_t> long_block(136, 0x88);
  long_block[0] = 0x00, long_block[1] = 0x3c;  // d = 1
  // The upper bits are 2, but for group 7, where they are 1.
  long_block[2] = 0xaa, long_block[3] = 0x6a;
  for (int i = 4; i < 8; ++i) long_block[i] = 0x00;
  long_block[7] = 0xf0;  // group 7: 15 + 16 - 32 = -1
  std::vector<double> values = decode(kIQ4_XS, long_block.data(), 256);
  EXPECT_EQ(values[100], 0);
  EXPECT_EQ(values[224], -1);

  std::vector<uint8_t> tiny(17, 0);
  tiny[0] = 128;   // 2
  tiny[1] = 0xf1;  // element 0: 0.5; element 16: -6
  expected.assign(32, 0.0);
  expected[0] = 1, expected[16] = -12;
  EXPECT_EQ(decode(kMXFP4, tiny.data(), 32), expected);
}

TEST(ReferenceDecode, RefusesHalfBlocksAndUnknownTypes) {
  const uint8_t bytes[64] = {};
  EXPECT_THROW(decode(kQ4_0, bytes, 31), std::runtime_error);
  EXPECT_THROW(decode(16, bytes, 32), std::runtime_error);
}

TEST(ReferenceForward, ErrorIsRelativeToTheLargestLogitAndKeepsNan) {
  EXPECT_DOUBLE_EQ(relative_error({{1, 2}, {3, 4}}, {{1, 2}, {3.5, -5}}), 9.0 / 5);
  EXPECT_TRUE(std::isnan(relative_error({{NAN, 2}}, {{1, 2}})));
}

TEST(ReferenceForward, TellsTheStoryThatTheTrainedModelTells) {
  const char* data = std::getenv("TROIKA_DATA");
  if (data == nullptr) GTEST_SKIP() << "TROIKA_DATA is not set: no trained model to read";
  const Gguf file = read_gguf(std::string(data) + "/models/stories260K.gguf");
  const std::vector<int> prompt = {1, 403, 407, 261, 378};  // BOS and "Once upon a time"
  std::string text;
  for (int token : greedy(Model(file), prompt, 27)) {
    text += file.metadata.at("tokenizer.ggml.tokens").texts.at(token);
  }
  for (size_t at; (at = text.find("▁")) != std::string::npos;) text.replace(at, 3, " ");
  EXPECT_EQ(text, ", there was a little girl named Lily. She loved to play outside in the park.");
}

}  // namespace
}  // namespace troika::reference
