#include "weights/panels.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/error.h"
#include "kernels/choose.h"
#include "kernels/pack.h"
#include "weights/store.h"

namespace troika::weights {
namespace {

constexpr std::align_val_t kAlignment{64};

size_t n_strips_of(const Matrix& matrix) {
  return kernels::n_strips(static_cast<size_t>(matrix.n_rows));
}

}  // namespace

std::vector<model::WeightId> prompt_matrices(const model::Blueprint& blueprint) {
  std::set<model::WeightId> ids;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear) continue;
    if (!blueprint.values[static_cast<size_t>(op.output)].per_output) ids.insert(op.weight);
  }
  return {ids.begin(), ids.end()};
}

bool fits_int8(const Matrix& matrix) {
  return static_cast<size_t>(matrix.row_length) <= kernels::kMostInt8Depth;
}

size_t int8_panel_bytes(const Matrix& matrix) {
  constexpr size_t kBytesBeside = kernels::kPanelRows * (sizeof(float) + sizeof(int32_t));
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

Int8Matrix::Int8Matrix(const Matrix& matrix) : bytes_(int8_panel_bytes(matrix)) {
  TROIKA_ASSERT(fits_int8(matrix));
  storage_.reset(static_cast<std::byte*>(::operator new(bytes_, kAlignment)));
  const auto k = static_cast<size_t>(matrix.row_length);
  const size_t level_bytes = n_strips_of(matrix) * kernels::int8_strip_bytes(k);
  const size_t scale_bytes = n_strips_of(matrix) * kernels::kPanelRows * sizeof(float);
  const std::byte* const begin = storage_.get();
  panels_ = {reinterpret_cast<const int8_t*>(begin),
             reinterpret_cast<const float*>(begin + level_bytes),
             reinterpret_cast<const int32_t*>(begin + level_bytes + scale_bytes),
             static_cast<size_t>(matrix.n_rows), k};
}

void Int8Matrix::pack(const Matrix& matrix, size_t first_strip, size_t last_strip) {
  const size_t k = panels_.k;
  // Whichever kernels are chosen, the bits are the same.
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  for (size_t strip = first_strip; strip < last_strip; ++strip) {
    const size_t first_row = strip * kernels::kPanelRows;
    const size_t last_row = std::min(first_row + kernels::kPanelRows, panels_.n_rows);
    kernels::pack_strip(kernels.table, matrix.type,
                        {matrix.data, matrix.row_bytes, k, first_row, last_row},
                        {const_cast<int8_t*>(panels_.levels_of(strip)),
                         const_cast<float*>(panels_.scales_of(strip)),
                         const_cast<int32_t*>(panels_.starts_of(strip))});
  }
}

}  // namespace troika::weights
