#include "lanes/vendor/levels.h"

#include <algorithm>
#include <cstdlib>

#include "base/cache_line.h"
#include "base/error.h"

namespace troika::lanes {
namespace {

// A line of a strip of a panel (kernels/panels.h), at its alignment.
struct alignas(kernels::kLineBytes) PanelLine {
  std::byte bytes[kernels::kLineBytes];
};

// Returns the place of a row's number i in a strip in bf16, counted in numbers.
constexpr size_t bf16_place(size_t row, size_t i) {
  return (i / kernels::kBf16LineDepth * kernels::kStripRows + row) * kernels::kBf16LineDepth +
         i % kernels::kBf16LineDepth;
}

constexpr int kPartGranule = 64;
constexpr int kLargestLevel = 127;  // the largest level of an activation

// Holds strip `strip` of a weight ready to be read; where there are no panels, `own` has its
// levels.
struct OwnStrip {
  explicit OwnStrip(size_t k) : levels(kernels::int8_strip_bytes(k) + kCacheLineBytes) {}
  int8_t* aligned() { return at_cache_line(levels.data()); }
  std::vector<int8_t> levels;
  float scales[kernels::kStripRows] = {};
  int32_t starts[kernels::kStripRows] = {};
};

kernels::Int8Panels strip_of(const BoundProduct& product, size_t strip, OwnStrip* own) {
  if (product.weight.panels != nullptr) return *product.weight.panels;
  const weights::Matrix& matrix = product.weight.matrix;
  const auto k = static_cast<size_t>(matrix.row_length);
  const auto n_rows = static_cast<size_t>(matrix.n_rows);
  const size_t first = strip * kernels::kStripRows;
  product.unpack_int8(
      {matrix.data, matrix.row_bytes, k, first, std::min(first + kernels::kStripRows, n_rows),
       static_cast<size_t>(matrix.n_strip_rows)},
      product.weight.row_largest + first, {own->aligned(), own->scales, own->starts});
  return {own->aligned(), own->scales, own->starts, n_rows, k, strip};
}

bool is_exact(const LevelRows& rows, int length, int most) {
  const auto k = static_cast<size_t>(rows.k), n = static_cast<size_t>(length);
  for (size_t row = 0; row < rows.n_rows(); ++row) {
    const int8_t* const levels = rows.levels.data() + row * k;
    for (size_t first = 0; first < k; first += n) {
      int sum = 0;
      for (size_t i = first; i < std::min(first + n, k); ++i) sum += std::abs(levels[i]);
      if (sum > most / kLargestLevel) return false;
    }
  }
  return true;
}

}  // namespace

void append_rows(const BoundProduct& product, Range range, LevelRows* rows) {
  TROIKA_ASSERT(range.begin % static_cast<int>(kernels::kStripRows) == 0);
  const auto k = static_cast<size_t>(product.weight.matrix.row_length);
  rows->k = static_cast<int>(k);
  OwnStrip own(k);
  const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
  for (size_t first = begin; first < end; first += kernels::kStripRows) {
    const size_t strip = first / kernels::kStripRows;
    const kernels::Int8Panels panels = strip_of(product, strip, &own);
    for (size_t r = 0; r < std::min(kernels::kStripRows, end - first); ++r) {
      const int8_t* const levels = panels.levels_of(strip) + r * kernels::kInt8LineDepth;
      for (size_t i = 0; i < k; ++i) {
        rows->levels.push_back(levels[i / kernels::kInt8LineDepth * kernels::kLineBytes +
                                      i % kernels::kInt8LineDepth]);
      }
      rows->scales.push_back(panels.scales_of(strip)[r]);
    }
  }
}

void write_bf16_rows(const BoundProduct& product, Range range, uint16_t* rows) {
  TROIKA_ASSERT(range.begin % static_cast<int>(kernels::kStripRows) == 0);
  const weights::Matrix& matrix = product.weight.matrix;
  const auto k = static_cast<size_t>(matrix.row_length);
  const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
  const size_t depth = kernels::bf16_depth(k);
  std::vector<PanelLine> strip(depth / kernels::kBf16LineDepth);
  auto* const levels = reinterpret_cast<uint16_t*>(strip.data());
  for (size_t first = begin; first < end; first += kernels::kStripRows) {
    const size_t last = std::min(first + kernels::kStripRows, static_cast<size_t>(matrix.n_rows));
    product.unpack_bf16(
        {matrix.data, matrix.row_bytes, k, first, last, static_cast<size_t>(matrix.n_strip_rows)},
        0, depth, levels);
    for (size_t r = 0; r < std::min(kernels::kStripRows, end - first); ++r, rows += k) {
      for (size_t i = 0; i < k; ++i) rows[i] = levels[bf16_place(r, i)];
    }
  }
}

int exact_part_length(const LevelRows& rows, int most) {
  for (int n_parts = 1;; ++n_parts) {
    const int granules = (rows.k + n_parts * kPartGranule - 1) / (n_parts * kPartGranule);
    const int length = std::min(rows.k, granules * kPartGranule);
    // One granule is always exact: 64 * 127 * 127 is about a million.
    if (granules == 1 || is_exact(rows, length, most)) return length;
  }
}

}  // namespace troika::lanes
