// Runs the loops of the matrix unit on registers in plain C++, so that every machine can test what
// they compute. amx_test.cc runs the machine code. No test measures their speed.
#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>

#include "kernels/tiles_test_support.h"

namespace troika::kernels {
namespace {

#include "kernels/simd/matmul_tiles.inl"

// Has the registers and instructions as the processor's manual describes them.
class PlainTiles {
 public:
  void begin() {
    EXPECT_FALSE(is_begun_);
    is_begun_ = true;
    std::memset(lines_, 0x5a, sizeof(lines_));  // stands for whatever was there
  }
  void end() {
    EXPECT_TRUE(is_begun_);
    is_begun_ = false;
  }
  template <int kTile>
  void zero() {
    std::memset(lines_[kTile], 0, sizeof(lines_[kTile]));
  }
  template <int kTile>
  void load(const void* p, size_t stride) {
    for (size_t i = 0; i < 16; ++i) {
      std::memcpy(lines_[kTile][i], static_cast<const std::byte*>(p) + i * stride, 64);
    }
  }
  template <int kTile>
  void store(void* p, size_t stride) {
    for (size_t i = 0; i < 16; ++i) {
      std::memcpy(static_cast<std::byte*>(p) + i * stride, lines_[kTile][i], 64);
    }
  }
  template <int kC, int kA, int kB>
  void add_u8_i8() {
    for (size_t t = 0; t < 16; ++t) {
      for (size_t r = 0; r < 16; ++r) {
        uint32_t sum = get<uint32_t>(kC, t, r);
        for (size_t k = 0; k < 64; ++k) {
          const int product = get<uint8_t>(kA, t, k) * get<int8_t>(kB, k / 4, 4 * r + k % 4);
          sum += static_cast<uint32_t>(product);
        }
        put(kC, t, r, sum);
      }
    }
  }
  template <int kC, int kA, int kB>
  void add_bf16() {
    for (size_t t = 0; t < 16; ++t) {
      for (size_t r = 0; r < 16; ++r) {
        float sum = get<float>(kC, t, r);
        for (size_t k = 0; k < 32; ++k) {
          sum += tensor::bf16_to_f32(get<uint16_t>(kA, t, k)) *
                 tensor::bf16_to_f32(get<uint16_t>(kB, k / 2, 2 * r + k % 2));
        }
        put(kC, t, r, sum);
      }
    }
  }

 private:
  template <typename T>
  T get(int tile, size_t line, size_t i) const {
    T value;
    std::memcpy(&value, lines_[tile][line] + i * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  void put(int tile, size_t line, size_t i, T value) {
    std::memcpy(lines_[tile][line] + i * sizeof(T), &value, sizeof(T));
  }

  std::byte lines_[8][16][64];
  bool is_begun_ = false;
};

TEST(Tiles, N3Int8ProductsEqualTheReferenceToTheBit) {
  compare_int8_products(matmul_int8_tiles<PlainTiles>);
}

TEST(Tiles, H13Bf16ProductsAgreeWithTheReferenceStretchByStretch) {
  compare_bf16_products(matmul_bf16_tiles<PlainTiles>);
}

}  // namespace
}  // namespace troika::kernels
