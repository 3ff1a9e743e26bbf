// Checks what every implementation of products with tile registers must compute, over shapes that
// cut tiles, stretches of k and groups of tokens anywhere.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/panels_test_support.h"

namespace troika::kernels {

inline std::vector<Shape> tile_shapes() {
  std::vector<Shape> shapes(std::begin(kPanelShapes), std::end(kPanelShapes));
  // Where rows are as long as in the last shape, a group has few tokens.
  shapes.insert(shapes.end(), {{40, 700, 33}, {32, 1100, 300}, {7, 1536, 31}, {5, 21000, 70}});
  return shapes;
}

// Expects the bits of the reference.
inline void compare_int8_products(MatmulInt8* matmul) {
  for (const Shape& s : tile_shapes()) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const Int8Weight packed(Type::kF32, weight.view);
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        int8_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      PanelProduct product = {0, n_strips(s.n_rows), s.n_tokens, x.get(), int8_token_bytes(s.k),
                              b, mine.data(),        s.n_rows};
      matmul(packed.view, product);
      product.y = theirs.data();
      reference::kTable.matmul_int8(packed.view, product);
      ASSERT_EQ(mine, theirs) << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens;
    }
  }
}

// Compares the products of stretches of k, one after the other, with the reference.
inline void compare_bf16_products(MatmulBf16* matmul) {
  for (const Shape& s : tile_shapes()) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        bf16_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
      for (size_t first_k = 0; first_k < s.k; first_k += 512) {
        const size_t n_k = bf16_depth(std::min<size_t>(512, s.k - first_k));
        const auto panel = bf16_panel(reference::kTable, Type::kF32, weight.view, first_k, n_k);
        PanelProduct product = {
            0, n_strips(s.n_rows), s.n_tokens, x.get() + 2 * first_k, bf16_token_bytes(s.k),
            b, mine.data(),        s.n_rows};
        const Bf16Stretch stretch = {panel.get(), s.n_rows, n_k, first_k == 0,
                                     first_k + 512 >= s.k};
        matmul(stretch, product);
        product.y = theirs.data();
        reference::kTable.matmul_bf16(stretch, product);
      }
      for (size_t i = 0; i < mine.size(); ++i) {
        // Terms are below 0.05 * 5 * 5; a float sum of k of them loses a few of its last bits.
        ASSERT_NEAR(mine[i], theirs[i], 2e-7f * static_cast<float>(s.k) + 1e-6f)
            << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens << " at " << i;
      }
    }
  }
}

}  // namespace troika::kernels
