#include "tensor/strips.h"

#include <cstdint>
#include <cstring>
#include <span>

#include "base/error.h"
#include "tensor/codec.h"

namespace troika::tensor {
namespace {

// Words of a block that follow each other and are equally long.
struct Field {
  uint8_t word_bytes;
  uint8_t n_words;
};

// These are the fields of one block of each type, in the order of the file.
constexpr Field kQ4_0[] = {{2, 1}, {4, 4}};
constexpr Field kQ4_1[] = {{4, 1}, {4, 4}};
constexpr Field kQ5_0[] = {{2, 1}, {4, 5}};
constexpr Field kQ5_1[] = {{4, 6}};
constexpr Field kQ8_0[] = {{2, 1}, {4, 8}};
constexpr Field kQ2_K[] = {{4, 20}, {2, 2}};
constexpr Field kQ3_K[] = {{4, 27}, {2, 1}};
constexpr Field kQ4_K[] = {{2, 2}, {4, 35}};
constexpr Field kQ5_K[] = {{2, 2}, {4, 43}};
constexpr Field kQ6_K[] = {{4, 52}, {2, 1}};
constexpr Field kIQ4_XS[] = {{2, 2}, {4, 33}};
constexpr Field kMXFP4[] = {{1, 1}, {4, 4}};

std::span<const Field> fields_of(Type type) {
  switch (type) {
    case Type::kQ4_0:
    case Type::kIQ4_NL:
      return kQ4_0;
    case Type::kQ4_1:
      return kQ4_1;
    case Type::kQ5_0:
      return kQ5_0;
    case Type::kQ5_1:
      return kQ5_1;
    case Type::kQ8_0:
      return kQ8_0;
    case Type::kQ2_K:
      return kQ2_K;
    case Type::kQ3_K:
      return kQ3_K;
    case Type::kQ4_K:
      return kQ4_K;
    case Type::kQ5_K:
      return kQ5_K;
    case Type::kQ6_K:
      return kQ6_K;
    case Type::kIQ4_XS:
      return kIQ4_XS;
    case Type::kMXFP4:
      return kMXFP4;
    case Type::kF32:
    case Type::kF16:
    case Type::kBF16:
      break;
  }
  TROIKA_ASSERT(false);
  return {};
}

template <size_t kBytes>
void spread_word(const std::byte* from, size_t stride, std::byte* to) {
  for (size_t r = 0; r < kStripRows; ++r) std::memcpy(to + r * kBytes, from + r * stride, kBytes);
}

// Four words of a row, or a word of four rows. Compilers for all processors have such vectors.
using FourWords [[gnu::vector_size(16)]] = uint32_t;
constexpr size_t kWordsTogether = 4;

// Spreads four words of four bytes that follow each other in each row: blocks of four rows and four
// words are transposed in registers, which takes half of the instructions of single words.
void spread_four_words(const std::byte* from, size_t stride, std::byte* to) {
  for (size_t r = 0; r < kStripRows; r += kWordsTogether) {
    FourWords rows[kWordsTogether];
    for (size_t i = 0; i < kWordsTogether; ++i) {
      std::memcpy(&rows[i], from + (r + i) * stride, sizeof(FourWords));
    }
    const FourWords low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const FourWords high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const FourWords low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const FourWords high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    const FourWords words[kWordsTogether] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                             __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                             __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                             __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
    for (size_t i = 0; i < kWordsTogether; ++i) {
      std::memcpy(to + (i * kStripRows + r) * sizeof(uint32_t), &words[i], sizeof(FourWords));
    }
  }
}

// Copies row `row` of one block of a strip.
void copy_block(std::span<const Field> fields, const std::byte* strip, size_t row, std::byte* to) {
  size_t at = 0;
  for (const Field& field : fields) {
    for (size_t word = 0; word < field.n_words; ++word, at += field.word_bytes) {
      std::memcpy(to + at, strip + at * kStripRows + row * field.word_bytes, field.word_bytes);
    }
  }
}

}  // namespace

void pack_strip(Type type, const std::byte* rows, size_t k, std::byte* strip) {
  const std::span<const Field> fields = fields_of(type);
  const size_t stride = row_bytes(type, k), block_bytes = type_info(type).block_bytes;
  for (size_t block = 0; block < stride; block += block_bytes) {
    size_t at = block;
    for (const Field& field : fields) {
      size_t i = 0;
      for (; field.word_bytes == 4 && i + kWordsTogether <= field.n_words; i += kWordsTogether) {
        spread_four_words(rows + at, stride, strip + at * kStripRows);
        at += kWordsTogether * field.word_bytes;
      }
      for (; i < field.n_words; ++i, at += field.word_bytes) {
        std::byte* const to = strip + at * kStripRows;
        if (field.word_bytes == 4) {
          spread_word<4>(rows + at, stride, to);
        } else if (field.word_bytes == 2) {
          spread_word<2>(rows + at, stride, to);
        } else {
          spread_word<1>(rows + at, stride, to);
        }
      }
    }
  }
}

void pack_strip_in_place(Type type, std::byte* rows, size_t k, std::byte* buffer) {
  std::memcpy(buffer, rows, kStripRows * row_bytes(type, k));
  pack_strip(type, buffer, k, rows);
}

void copy_strip_row(Type type, const std::byte* strip, size_t row, size_t k, std::byte* to) {
  const std::span<const Field> fields = fields_of(type);
  const size_t block_bytes = type_info(type).block_bytes, end = row_bytes(type, k);
  for (size_t at = 0; at < end; at += block_bytes) {
    copy_block(fields, strip + at * kStripRows, row, to + at);
  }
}

void decode_strip_row(Type type, const std::byte* strip, size_t row, size_t k, float* values) {
  const TypeInfo& info = type_info(type);
  constexpr size_t kMostBlockBytes = 256;
  for (size_t i = 0; i < k; i += info.block_length, strip += info.block_bytes * kStripRows) {
    std::byte block[kMostBlockBytes];
    copy_block(fields_of(type), strip, row, block);
    dequantize_row(type, block, values + i, info.block_length);
  }
}

}  // namespace troika::tensor
