// Makes packed weights, and activations in the forms that they are multiplied in, for tests of
// panels.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/pack.h"
#include "kernels/test_support.h"
#include "tensor/half.h"

namespace troika::kernels {

struct Shape {
  size_t n_rows, k, n_tokens;
};
inline constexpr Shape kPanelShapes[] = {{1, 1, 1},      {16, 64, 6},  {17, 65, 7},  {64, 256, 12},
                                         {100, 300, 29}, {0, 64, 3},   {5, 64, 0},   {80, 1536, 13},
                                         {128, 96, 5},   {48, 70, 11}, {33, 257, 4}, {63, 31, 1}};

template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t n) : bytes_(new std::byte[n * sizeof(T) + 64]), n_bytes_(n * sizeof(T)) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.get());
    data_ = reinterpret_cast<T*>(bytes_.get() + (64 - address % 64) % 64);
    if (n_bytes_ > 0) std::memset(static_cast<void*>(data_), 0, n_bytes_);
  }
  T* get() const { return data_; }
  bool operator==(const Aligned& other) const {
    return n_bytes_ == 0 || std::memcmp(data_, other.data_, n_bytes_) == 0;
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t n_bytes_;
  T* data_;
};

// A packed matrix with its memory.
struct Int8Weight {
  Aligned<int8_t> levels;
  std::vector<float> scales;
  std::vector<int32_t> starts;
  Int8Panels view;

  Int8Weight(size_t n_rows, size_t k)
      : levels(n_strips(n_rows) * int8_strip_bytes(k)),
        scales(n_strips(n_rows) * kStripRows),
        starts(n_strips(n_rows) * kStripRows) {
    view = {levels.get(), scales.data(), starts.data(), n_rows, k};
  }
  // Packs with `unpack_int8` of a table, or row by row without a table.
  Int8Weight(Type type, const MatmulWeight& weight, const Table* table = nullptr)
      : Int8Weight(weight.last_row, weight.k) {
    std::vector<float> row(weight.k), buffer(int8_token_bytes(weight.k) / sizeof(float));
    auto* bytes = reinterpret_cast<std::byte*>(buffer.data());
    for (size_t strip = 0; strip < n_strips(weight.last_row); ++strip) {
      MatmulWeight part = weight;
      part.first_row = strip * kStripRows;
      part.last_row = std::min(part.first_row + kStripRows, weight.last_row);
      const Int8Strip out = strip_at(strip);
      if (table != nullptr) {
        pack_strip(*table, type, part, out);
      } else {
        pack_int8(reference::kTable, type, part, {row.data(), bytes}, out.levels, out.scales,
                  out.starts);
      }
    }
  }
  Int8Strip strip_at(size_t strip) {
    return {levels.get() + strip * int8_strip_bytes(view.k), scales.data() + strip * kStripRows,
            starts.data() + strip * kStripRows};
  }
  int8_t& level(size_t r, size_t i) {
    return levels
        .get()[r / kStripRows * int8_strip_bytes(view.k) + i / kInt8LineDepth * kLineBytes +
               r % kStripRows * kInt8LineDepth + i % kInt8LineDepth];
  }
};

inline Aligned<std::byte> int8_tokens(const Table& table, const std::vector<float>& x,
                                      size_t n_tokens, size_t k) {
  Aligned<std::byte> rows(n_tokens * int8_token_bytes(k));
  for (size_t t = 0; t < n_tokens; ++t) {
    table.quantize_int8(x.data() + t * k, rows.get() + t * int8_token_bytes(k), k);
  }
  return rows;
}

inline Aligned<std::byte> bf16_tokens(const Table& table, const std::vector<float>& x,
                                      size_t n_tokens, size_t k) {
  Aligned<std::byte> rows(n_tokens * bf16_token_bytes(k));
  for (size_t t = 0; t < n_tokens; ++t) {
    table.narrow_bf16(x.data() + t * k, rows.get() + t * bf16_token_bytes(k), k);
  }
  return rows;
}

// Returns all rows of a weight as strips, with n_k columns from first_k on.
inline Aligned<uint16_t> bf16_panel(const Table& table, Type type, const MatmulWeight& weight,
                                    size_t first_k, size_t n_k) {
  Aligned<uint16_t> panel(n_strips(weight.last_row) * kStripRows * n_k);
  for (size_t strip = 0; strip < n_strips(weight.last_row); ++strip) {
    MatmulWeight part = weight;
    part.first_row = strip * kStripRows;
    part.last_row = std::min(part.first_row + kStripRows, weight.last_row);
    find(table.unpack_bf16, type)(part, first_k, n_k, panel.get() + strip * kStripRows * n_k);
  }
  return panel;
}

}  // namespace troika::kernels
