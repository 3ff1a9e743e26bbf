// A product of whole numbers as a graph in OpenVINO's own form: a text, and the bytes of its
// constants.
#pragma once

#include <cstddef>
#include <string>

namespace troika::lanes::openvino {

// The product y = (x - 128) · wᵀ: x is (n_tokens, k) of u8, w is (n_rows, k) of i8 and constant, y
// is (n_tokens, n_rows) of f32.
struct ProductShape {
  int n_tokens = 0;
  int k = 0;
  int n_rows = 0;
};

// Returns the bytes of the constants: the weight's levels stand first, row by row, and a few floats
// behind them.
size_t constant_bytes(const ProductShape& shape);
// Writes the constants that stand behind the levels.
void write_others(const ProductShape& shape, std::byte* constants);

// Floats hold whole numbers up to this one exactly. In long rows the device adds parts of a sum as
// floats: these are exact only where no part of a sum can be larger.
inline constexpr int kMostExactSum = 1 << 24;

// Returns the graph's text. Levels less 128 are whole numbers, and a quantisation to steps of 1
// from -128 to 127 leaves them unchanged: it only tells the compiler that they fit 8 bits. A scale
// of 1 for each row of the weight serves the same end: without it the device multiplies floats.
std::string product_text(const ProductShape& shape);

}  // namespace troika::lanes::openvino
