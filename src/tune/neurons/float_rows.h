// Has matrices of floats, and products of them, for what is fitted to a model's weights.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/type.h"

namespace troika::tune {

// Rows of floats, side by side.
struct Rows {
  Rows(size_t n, size_t k) : n(n), k(k), values(n * k) {}
  float* row(size_t i) { return values.data() + i * k; }
  const float* row(size_t i) const { return values.data() + i * k; }

  size_t n, k;
  std::vector<float> values;
};

Rows rows_of(std::span<const float> values, size_t k);
Rows decoded(tensor::Type type, const std::byte* data, size_t row_bytes, size_t n, size_t k);
Rows transposed(const Rows& a);
// Returns (a.n, b.n): the products of each row of a with each row of b.
Rows multiply_rows(const kernels::Table& kernels, const Rows& a, const Rows& b);
// Makes all rows orthonormal. A row that depends on those before becomes 0.
void orthonormalize(const kernels::Table& kernels, Rows* rows);
// Returns the inverse of L, where L * its transpose is the matrix and L has nothing above its
// diagonal. A row that depends on those before is 0. REQUIRES: the matrix is its own transpose, and
// has the products of some rows with each other.
Rows inverse_of_root(const Rows& matrix);

// Keeps the rows of a large matrix in eight bits, to multiply many others with them.
class LevelRows {
 public:
  LevelRows(const kernels::Table& kernels, const Rows& rows);
  // Returns (a.n, rows): the products of each row of a with each of these.
  Rows times(const Rows& a) const;

 private:
  const kernels::Table& kernels_;
  size_t n_;
  size_t depth_;  // the length of a row, with zeros behind it to whole blocks
  size_t row_bytes_;
  std::vector<std::byte> bytes_;
};

}  // namespace troika::tune
