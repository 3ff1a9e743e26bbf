// A product as a graph in OpenVINO's own form: a text, and the bytes of its constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troika::lanes::openvino {

// What a product multiplies. Either way sums are floats.
enum class ProductKind : uint8_t {
  kLevels,  // y = (x - 128) · wᵀ: x of u8, w of i8
  kBf16,    // y = x · wᵀ: x and w of bf16 (H13)
};
// Returns the bytes of one number of x or w.
constexpr size_t number_bytes(ProductKind kind) { return kind == ProductKind::kBf16 ? 2 : 1; }

// x is (n_tokens, k), w is (n_rows, k) and constant, y is (n_tokens, n_rows) of f32.
struct ProductShape {
  int n_tokens = 0;
  int k = 0;
  int n_rows = 0;
  ProductKind kind = ProductKind::kLevels;

  size_t weight_bytes() const {
    return static_cast<size_t>(n_rows) * static_cast<size_t>(k) * number_bytes(kind);
  }
};

// Returns the bytes of the constants: the weight stands first, row by row. A few floats stand
// behind levels.
size_t constant_bytes(const ProductShape& shape);
// Writes the constants that stand behind the weight.
void write_others(const ProductShape& shape, std::byte* constants);

// Floats hold whole numbers up to this one exactly. In long rows the device adds parts of a sum as
// floats: these are exact only where no part of a sum can be larger.
inline constexpr int kMostExactSum = 1 << 24;

// Returns the graph's text. Levels less 128 are whole numbers, and a quantisation to steps of 1
// from -128 to 127 leaves them unchanged: it only tells the compiler that they fit 8 bits. A scale
// of 1 for each row of the weight serves the same end: without it the device multiplies floats.
// A graph in bf16 multiplies floats that are made of bf16: only then the device leaves its sums
// floats, while a product of bf16 itself is rounded to bf16.
std::string product_text(const ProductShape& shape);
// Returns the value of the device's property INFERENCE_PRECISION_HINT with which such a graph is
// compiled; null: the device's own.
constexpr const char* precision_hint(ProductKind kind) {
  return kind == ProductKind::kBf16 ? "bf16" : nullptr;
}

}  // namespace troika::lanes::openvino
