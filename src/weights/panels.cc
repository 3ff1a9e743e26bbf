#include "weights/panels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <set>

#include "base/error.h"
#include "base/huge_pages.h"
#include "kernels/choose.h"
#include "tensor/codec.h"
#include "weights/store.h"

namespace troika::weights {
namespace {

constexpr std::align_val_t kAlignment{kPanelAlignment};

size_t n_strips_of(const Matrix& matrix) {
  return kernels::n_strips(static_cast<size_t>(matrix.n_rows));
}

// Returns memory for a matrix, which every prompt reads from its beginning to its end.
std::byte* new_storage(const Matrix& matrix) {
  const size_t bytes = int8_panel_bytes(matrix);
  auto* const storage = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  prefer_huge_pages(storage, bytes);
  return storage;
}

}  // namespace

std::vector<model::WeightId> prompt_matrices(const model::Blueprint& blueprint) {
  std::set<model::WeightId> ids;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear || op.keeps_float) continue;
    if (!blueprint.values[static_cast<size_t>(op.output)].per_output) ids.insert(op.weight);
  }
  return {ids.begin(), ids.end()};
}

std::vector<model::WeightId> expert_matrices(const model::Blueprint& blueprint) {
  std::vector<model::WeightId> ids;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind == model::OpKind::kExpertLinear) ids.push_back(op.weight);
  }
  return ids;
}

bool fits_int8(const Matrix& matrix) {
  return static_cast<size_t>(matrix.row_length) <= kernels::kMostInt8Depth;
}

size_t int8_panel_bytes(const Matrix& matrix) {
  constexpr size_t kBytesBeside = kernels::kStripRows * (sizeof(float) + sizeof(int32_t));
  return n_strips_of(matrix) *
         (kernels::int8_strip_bytes(static_cast<size_t>(matrix.row_length)) + kBytesBeside);
}

void measure_rows(const Matrix& matrix, size_t first_row, size_t last_row, float* largest) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  const auto largest_of_row = kernels::find(kernels.table.largest_of_row, matrix.type);
  for (size_t row = first_row; row < last_row; ++row) {
    largest[row] = largest_of_row(matrix.data + row * matrix.row_bytes,
                                  static_cast<size_t>(matrix.row_length));
  }
}

void Int8Matrix::Free::operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }

Int8Matrix::Int8Matrix(const Matrix& matrix) : Int8Matrix(matrix, new_storage(matrix)) {
  storage_.reset(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(panels_.levels)));
}

Int8Matrix::Int8Matrix(const Matrix& matrix, std::byte* storage)
    : bytes_(int8_panel_bytes(matrix)) {
  TROIKA_ASSERT(fits_int8(matrix) && reinterpret_cast<uintptr_t>(storage) % kPanelAlignment == 0);
  const auto k = static_cast<size_t>(matrix.row_length);
  const size_t level_bytes = n_strips_of(matrix) * kernels::int8_strip_bytes(k);
  const size_t scale_bytes = n_strips_of(matrix) * kernels::kStripRows * sizeof(float);
  const std::byte* const begin = storage;
  panels_ = {reinterpret_cast<const int8_t*>(begin),
             reinterpret_cast<const float*>(begin + level_bytes),
             reinterpret_cast<const int32_t*>(begin + level_bytes + scale_bytes),
             static_cast<size_t>(matrix.n_rows), k};
}

float largest_magnitude(const Matrix& matrix, size_t first_row, size_t last_row,
                        const float* factors) {
  std::vector<float> row(static_cast<size_t>(matrix.row_length));
  float largest = 0.0f;
  for (size_t r = first_row; r < last_row; ++r) {
    tensor::dequantize_row(matrix.type, matrix.data + r * matrix.row_bytes, row.data(), row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const float value = std::fabs(factors != nullptr ? row[i] * factors[i] : row[i]);
      if (value > largest) largest = value;
    }
  }
  return std::min(largest, std::numeric_limits<float>::max());
}

kernels::Int8Strip Int8Matrix::strip(size_t strip) {
  return {const_cast<int8_t*>(panels_.levels_of(strip)),
          const_cast<float*>(panels_.scales_of(strip)),
          const_cast<int32_t*>(panels_.starts_of(strip))};
}

void Int8Matrix::pack(const Matrix& matrix, size_t first_strip, size_t last_strip,
                      const kernels::PackRule& rule) {
  const size_t k = panels_.k;
  std::vector<float> row(k), magnitudes(k);
  // Floats give it their alignment.
  std::vector<float> levels(kernels::int8_token_bytes(k) / sizeof(float));
  // The bits are the same with all kernels.
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  for (size_t strip = first_strip; strip < last_strip; ++strip) {
    const size_t first_row = strip * kernels::kStripRows;
    const size_t last_row = std::min(first_row + kernels::kStripRows, panels_.n_rows);
    const kernels::Int8Strip out = this->strip(strip);
    const kernels::MatmulWeight rows = {matrix.data, matrix.row_bytes, k, first_row, last_row};
    if (rule.factors == nullptr && rule.limit == 0 && rule.int4_outliers < 0) {
      kernels::pack_strip(kernels.table, matrix.type, rows, out);
    } else {
      kernels::pack_int8(
          kernels.table, matrix.type, rows,
          {row.data(), reinterpret_cast<std::byte*>(levels.data()), magnitudes.data()}, out.levels,
          out.scales, out.starts, rule);
    }
  }
}

}  // namespace troika::weights
