// The loops of the matrix unit, run with its registers written out in plain C++: what they compute
// is tested on every machine. How fast they are is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/panels_test_support.h"

namespace troika::kernels {
namespace {

#include "kernels/simd/matmul_tiles.inl"

// As the processor's manual describes the registers and instructions.
class PlainTiles {
 public:
  void begin() {
    EXPECT_FALSE(is_begun_);
    is_begun_ = true;
    std::memset(lines_, 0x5a, sizeof(lines_));  // whatever stood there
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

constexpr Shape kLong[] = {{40, 700, 33}, {32, 1100, 300}, {7, 1536, 31}};

TEST(Tiles, N3Int8ProductsEqualTheReferenceToTheBit) {
  std::vector<Shape> shapes(std::begin(kPanelShapes), std::end(kPanelShapes));
  shapes.insert(shapes.end(), std::begin(kLong), std::end(kLong));
  for (const Shape& s : shapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const Int8Weight packed(Type::kF32, weight.view);
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        int8_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      PanelProduct product = {0, n_strips(s.n_rows), s.n_tokens, x.get(), int8_token_bytes(s.k),
                              b, mine.data(),        s.n_rows};
      matmul_int8_tiles<PlainTiles>(packed.view, product);
      product.y = theirs.data();
      reference::kTable.matmul_int8(packed.view, product);
      ASSERT_EQ(mine, theirs) << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens;
    }
  }
}

TEST(Tiles, H13Bf16ProductsAgreeWithTheReferenceStretchByStretch) {
  std::vector<Shape> shapes(std::begin(kPanelShapes), std::end(kPanelShapes));
  shapes.insert(shapes.end(), std::begin(kLong), std::end(kLong));
  for (const Shape& s : shapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        bf16_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
    for (size_t first_k = 0; first_k < s.k; first_k += 512) {
      const size_t n_k = bf16_depth(std::min<size_t>(512, s.k - first_k));
      const auto panel = bf16_panel(reference::kTable, Type::kF32, weight.view, first_k, n_k);
      PanelProduct product = {
          0,           n_strips(s.n_rows), s.n_tokens, x.get() + 2 * first_k, bf16_token_bytes(s.k),
          bias.data(), mine.data(),        s.n_rows};
      const Bf16Stretch stretch = {panel.get(), s.n_rows, n_k, first_k == 0, first_k + 512 >= s.k};
      matmul_bf16_tiles<PlainTiles>(stretch, product);
      product.y = theirs.data();
      reference::kTable.matmul_bf16(stretch, product);
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      ASSERT_NEAR(mine[i], theirs[i], 2e-7f * static_cast<float>(s.k) + 1e-6f)
          << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens << " at " << i;
    }
  }
}

}  // namespace
}  // namespace troika::kernels
