#include "tune/neurons/float_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/codec.h"

namespace troika::tune {
namespace {

constexpr tensor::Type kLevels = tensor::Type::kQ8_0;

double squares_of(const Rows& rows, size_t i) {
  double sum = 0.0;
  for (size_t k = 0; k < rows.k; ++k) sum += double{rows.row(i)[k]} * rows.row(i)[k];
  return sum;
}

// Makes rows orthonormal, one after the other. `before` has the squares of each row before anything
// was taken from it.
void orthonormalize_one_by_one(const std::vector<double>& before, Rows* rows) {
  for (size_t i = 0; i < rows->n; ++i) {
    float* const own = rows->row(i);
    for (int round = 0; round < 2; ++round) {  // the second round takes away rounding of the first
      for (size_t j = 0; j < i; ++j) {
        const float* const other = rows->row(j);
        double dot = 0.0;
        for (size_t k = 0; k < rows->k; ++k) dot += double{own[k]} * other[k];
        const auto factor = static_cast<float>(dot);
        for (size_t k = 0; k < rows->k; ++k) own[k] -= factor * other[k];
      }
    }
    const double after = squares_of(*rows, i);
    const bool is_new = after > 1e-10 * before[i] && after > 0.0;
    const float scale = is_new ? static_cast<float>(1.0 / std::sqrt(after)) : 0.0f;
    for (size_t k = 0; k < rows->k; ++k) own[k] *= scale;
  }
}

}  // namespace

Rows rows_of(std::span<const float> values, size_t k) {
  Rows rows(values.size() / k, k);
  std::copy(values.begin(), values.end(), rows.values.begin());
  return rows;
}

Rows decoded(tensor::Type type, const std::byte* data, size_t row_bytes, size_t n, size_t k) {
  Rows rows(n, k);
  for (size_t i = 0; i < n; ++i) tensor::dequantize_row(type, data + i * row_bytes, rows.row(i), k);
  return rows;
}

Rows transposed(const Rows& a) {
  constexpr size_t kSide = 16;  // the side of squares whose rows stay in a cache
  Rows t(a.k, a.n);
  for (size_t i = 0; i < a.n; i += kSide) {
    for (size_t j = 0; j < a.k; ++j) {
      const size_t end = std::min(a.n, i + kSide);
      for (size_t row = i; row < end; ++row) t.row(j)[row] = a.row(row)[j];
    }
  }
  return t;
}

Rows multiply_rows(const kernels::Table& kernels, const Rows& a, const Rows& b) {
  Rows y(a.n, b.n);
  if (a.n == 0) return y;
  const kernels::MatmulWeight weight = {reinterpret_cast<const std::byte*>(b.values.data()),
                                        b.k * sizeof(float), b.k, 0, b.n};
  kernels::find(kernels.matmul_f32, tensor::Type::kF32)(weight, a.n, a.values.data(), a.k,
                                                        y.values.data(), b.n);
  return y;
}

// Some rows are made so together, so that most of the work is products of matrices.
void orthonormalize(const kernels::Table& kernels, Rows* rows) {
  constexpr size_t kTogether = 32;
  Rows done(0, rows->k);
  for (size_t first = 0; first < rows->n; first += kTogether) {
    const size_t n = std::min(kTogether, rows->n - first);
    Rows own = rows_of({rows->row(first), n * rows->k}, rows->k);
    std::vector<double> before(n);
    for (size_t i = 0; i < n; ++i) before[i] = squares_of(own, i);
    for (int round = 0; round < 2 && done.n > 0; ++round) {
      const Rows shares = multiply_rows(kernels, own, done);                 // (n, done)
      const Rows within = multiply_rows(kernels, shares, transposed(done));  // (n, k)
      for (size_t i = 0; i < own.values.size(); ++i) own.values[i] -= within.values[i];
    }
    orthonormalize_one_by_one(before, &own);
    done.values.insert(done.values.end(), own.values.begin(), own.values.end());
    done.n += n;
  }
  *rows = std::move(done);
}

Rows inverse_of_root(const Rows& matrix) {
  const size_t n = matrix.n;
  std::vector<double> root(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    double* const own = root.data() + i * n;
    for (size_t j = 0; j < i; ++j) {
      const double* const other = root.data() + j * n;
      double rest = matrix.row(i)[j];
      for (size_t k = 0; k < j; ++k) rest -= own[k] * other[k];
      own[j] = other[j] > 0.0 ? rest / other[j] : 0.0;
    }
    double rest = matrix.row(i)[i];
    for (size_t k = 0; k < i; ++k) rest -= own[k] * own[k];
    // A row that depends on others has nothing left but rounding.
    own[i] = rest > 1e-6 * matrix.row(i)[i] ? std::sqrt(rest) : 0.0;
  }
  Rows inverse(n, n);
  std::vector<double> column(n);
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = j; i < n; ++i) {
      const double* const own = root.data() + i * n;
      double rest = i == j ? 1.0 : 0.0;
      for (size_t k = j; k < i; ++k) rest -= own[k] * column[k];
      column[i] = own[i] > 0.0 ? rest / own[i] : 0.0;
      inverse.row(i)[j] = static_cast<float>(column[i]);
    }
  }
  return inverse;
}

LevelRows::LevelRows(const kernels::Table& kernels, const Rows& rows)
    : kernels_(kernels), n_(rows.n) {
  const size_t block = tensor::type_info(kLevels).block_length;
  depth_ = (rows.k + block - 1) / block * block;
  row_bytes_ = tensor::row_bytes(kLevels, depth_);
  bytes_.resize(n_ * row_bytes_);
  std::vector<float> whole(depth_);
  for (size_t i = 0; i < n_; ++i) {
    std::copy_n(rows.row(i), rows.k, whole.begin());
    tensor::quantize_row(kLevels, whole.data(), bytes_.data() + i * row_bytes_, depth_);
  }
}

Rows LevelRows::times(const Rows& a) const {
  constexpr size_t kTogether = 64;  // so many rows of a stay in a cache
  const size_t a_bytes = kernels::q8_row_bytes(depth_);
  std::vector<std::byte> levels(kTogether * a_bytes);
  std::vector<float> whole(depth_);
  Rows y(a.n, n_);
  const kernels::MatmulWeight weight = {bytes_.data(), row_bytes_, depth_, 0, n_};
  for (size_t first = 0; first < a.n; first += kTogether) {
    const size_t n = std::min(kTogether, a.n - first);
    for (size_t i = 0; i < n; ++i) {
      std::copy_n(a.row(first + i), a.k, whole.begin());
      kernels_.quantize_activations(whole.data(), levels.data() + i * a_bytes, depth_);
    }
    kernels::find(kernels_.matmul_q8, kLevels)(weight, n, levels.data(), a_bytes, y.row(first), n_);
  }
  return y;
}

}  // namespace troika::tune
