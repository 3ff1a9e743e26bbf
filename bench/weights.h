// Makes weights to measure with, more of them than any cache holds.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/codec.h"

namespace troika::bench {

// Is the size of a pool: far more than the last-level cache of this class of machines has.
inline constexpr size_t kPoolBytes = size_t{640} << 20;

inline std::vector<float> random_floats(size_t n, float scale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

// A pool of rows of one type and length. Only a few rows are quantised; the others repeat them.
class WeightPool {
 public:
  WeightPool(tensor::Type type, size_t k) : k_(k), row_bytes_(tensor::row_bytes(type, k)) {
    constexpr size_t kRows = 16;
    const std::vector<float> values = random_floats(kRows * k, 0.05f);
    std::vector<std::byte> rows(kRows * row_bytes_);
    for (size_t r = 0; r < kRows; ++r) {
      tensor::quantize_row(type, values.data() + r * k, rows.data() + r * row_bytes_, k);
    }
    bytes_.resize(kPoolBytes / rows.size() * rows.size());
    for (size_t i = 0; i < bytes_.size(); i += rows.size()) {
      std::memcpy(bytes_.data() + i, rows.data(), rows.size());
    }
  }

  // Returns the `turn`-th matrix of n_rows. Matrices follow each other through the whole pool, so
  // that none is found in a cache.
  kernels::MatmulWeight matrix(size_t turn, size_t n_rows) const {
    const size_t n_matrices = bytes_.size() / (n_rows * row_bytes_);
    const std::byte* data = bytes_.data() + turn % n_matrices * n_rows * row_bytes_;
    return {data, row_bytes_, k_, 0, n_rows};
  }
  size_t row_bytes() const { return row_bytes_; }

 private:
  size_t k_;
  size_t row_bytes_;
  std::vector<std::byte> bytes_;
};

}  // namespace troika::bench
