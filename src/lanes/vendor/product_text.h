// A product of whole numbers as a graph in OpenVINO's own form: text, and bytes of constants.
#pragma once

#include <cstddef>
#include <string>

namespace troika::lanes::openvino {

// y = (x - 128) · wᵀ: x is (n_tokens, k) of u8, w (n_rows, k) of i8 and constant, y (n_tokens,
// n_rows) of f32.
struct ProductShape {
  int n_tokens = 0;
  int k = 0;
  int n_rows = 0;
};

// Bytes of the constants: the weight's levels first, row by row, and behind them a few floats.
size_t constant_bytes(const ProductShape& shape);
// Writes what stands behind the levels.
void write_others(const ProductShape& shape, std::byte* constants);

// Whole numbers up to this one are floats too. Behind long rows the device adds parts of a sum as
// floats: only where no part of a sum can be larger are all of them exact.
inline constexpr int kMostExactSum = 1 << 24;

// Levels less 128 are whole numbers, and a quantisation to steps of 1 from -128 to 127 leaves them
// as they are: it only tells the compiler that they fit 8 bits. So does a scale of 1 for each row
// of the weight: without it the device multiplies floats.
std::string product_text(const ProductShape& shape);

}  // namespace troika::lanes::openvino
