#include "base/digests/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace troika {
namespace {

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

// These are the examples of FIPS 180-4 and of NIST's file of short messages.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("\xd3"), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSame) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (size_t length : {55u, 56u, 63u, 64u, 65u, 119u, 120u, 128u, 300u}) {
    const std::string_view whole = std::string_view(text).substr(0, length);
    for (size_t piece : {1u, 3u, 63u, 64u, 65u, 130u}) {
      Sha256 hash;
      for (size_t begin = 0; begin < length; begin += piece) hash.add(whole.substr(begin, piece));
      EXPECT_EQ(hash.hex(), sha256_of(whole)) << length << " by " << piece;
    }
  }
}

}  // namespace
}  // namespace troika
