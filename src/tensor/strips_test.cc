#include "tensor/strips.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tensor/codec.h"

namespace troika::tensor {
namespace {

// The bytes are random, so that a word at the wrong place is noticed in every field of every
// format.
TEST(Strips, HaveTheRowsThatWerePacked) {
  std::mt19937 random(1);
  for (const TypeInfo& info : type_table()) {
    if (is_float(info.type)) continue;
    const size_t k = 3 * size_t{info.block_length}, n_bytes = row_bytes(info.type, k);
    std::vector<std::byte> rows(kStripRows * n_bytes), strip(rows.size());
    for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
    pack_strip(info.type, rows.data(), k, strip.data());
    for (size_t r = 0; r < kStripRows; ++r) {
      std::vector<float> wanted(k), found(k);
      dequantize_row(info.type, rows.data() + r * n_bytes, wanted.data(), k);
      decode_strip_row(info.type, strip.data(), r, k, found.data());
      EXPECT_EQ(std::memcmp(wanted.data(), found.data(), k * sizeof(float)), 0)
          << info.name << " row " << r;
      std::vector<std::byte> row(n_bytes);
      copy_strip_row(info.type, strip.data(), r, k, row.data());
      EXPECT_EQ(std::memcmp(row.data(), rows.data() + r * n_bytes, n_bytes), 0)
          << info.name << " row " << r;
    }
  }
}

// Kernels load one word of each row side by side.
TEST(Strips, PutTheSameWordOfAllRowsSideBySide) {
  constexpr size_t kBytes = 34;  // is a row of Q8_0: a scale of two bytes and 32 levels
  std::vector<std::byte> rows(kStripRows * kBytes), strip(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::byte>(i / kBytes * 16 + i % kBytes / 4);
  }
  pack_strip(Type::kQ8_0, rows.data(), 32, strip.data());
  for (size_t r = 0; r < kStripRows; ++r) {
    EXPECT_EQ(strip[2 * r], rows[r * kBytes]);
    EXPECT_EQ(strip[2 * kStripRows + 4 * r + 3], rows[r * kBytes + 5]);
    EXPECT_EQ(strip[(2 + 28) * kStripRows + 4 * r], rows[r * kBytes + 30]);
  }
}

}  // namespace
}  // namespace troika::tensor
