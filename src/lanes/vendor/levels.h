// The weights of products in the form in which a device's graph takes them: rows of int8 levels or
// of bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "lanes/host/bound_product.h"

namespace troika::lanes {

// Rows of one weight or of several, one behind the other. weight = level * scale, as in panels.
struct LevelRows {
  int k = 0;
  std::vector<int8_t> levels;  // (n_rows, k)
  std::vector<float> scales;   // (n_rows)

  size_t n_rows() const { return scales.size(); }
};

// Appends rows [range.begin, range.end) of a product's weight. REQUIRES: the product is of
// InputForm::kInt8, and the range begins at a multiple of kernels::kStripRows.
void append_rows(const BoundProduct& product, Range range, LevelRows* rows);

// Writes rows [range.begin, range.end) of a product's weight, (rows, k), rounded as the host lane
// rounds them. REQUIRES: the product is of InputForm::kBf16, and the range begins at a multiple of
// kernels::kStripRows.
void write_bf16_rows(const BoundProduct& product, Range range, uint16_t* rows);

// Returns the length of the parts into which k must be divided so that no sum of a part exceeds
// `most`, whatever the activations are. The last part may be shorter.
int exact_part_length(const LevelRows& rows, int most);

}  // namespace troika::lanes
