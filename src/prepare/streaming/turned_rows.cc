#include "prepare/streaming/turned_rows.h"

#include <cstring>

#include "base/error.h"
#include "tensor/strips.h"

namespace troika::prepare {

TurnedRows::TurnedRows(const weights::Matrix& matrix)
    : type_(matrix.type),
      row_length_(static_cast<size_t>(matrix.row_length)),
      row_bytes_(matrix.row_bytes),
      strip_bytes_(tensor::kStripRows * matrix.row_bytes),
      n_strips_(static_cast<size_t>(matrix.n_rows) / tensor::kStripRows) {}

void TurnedRows::turn(std::byte* rows, std::span<std::byte> buffer) const {
  TROIKA_ASSERT(buffer.size() >= buffer_bytes());
  for (size_t i = 0; i < n_strips_; ++i, rows += strip_bytes_) {
    tensor::pack_strip_in_place(type_, rows, row_length_, buffer.data());
  }
}

void TurnedRows::turn_back(std::byte* rows, std::span<std::byte> buffer) const {
  TROIKA_ASSERT(buffer.size() >= buffer_bytes());
  for (size_t i = 0; i < n_strips_; ++i, rows += strip_bytes_) {
    std::memcpy(buffer.data(), rows, strip_bytes_);
    for (size_t row = 0; row < tensor::kStripRows; ++row) {
      tensor::copy_strip_row(type_, buffer.data(), row, row_length_, rows + row * row_bytes_);
    }
  }
}

}  // namespace troika::prepare
