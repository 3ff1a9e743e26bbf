// The rows of a matrix that is read from the disk again and again. Prompts want 16 of them side by
// side (tensor/strips.h), where their kernels are up to twice as fast. To turn rows takes a core
// longer than a step computes with them, so steps read them as they stand in the file.
#pragma once

#include <cstddef>
#include <span>

#include "weights/store.h"

namespace troika::prepare {

class TurnedRows {
 public:
  // Says that all rows stay as they are.
  TurnedRows() = default;
  explicit TurnedRows(const weights::Matrix& matrix);

  // Returns the bytes that functions below need beside the rows.
  size_t buffer_bytes() const { return n_strips_ > 0 ? strip_bytes_ : 0; }
  // Brings rows that lie at `rows` as in the file side by side, or back. Rows behind the last 16
  // stay. REQUIRES: `buffer` has buffer_bytes().
  void turn(std::byte* rows, std::span<std::byte> buffer) const;
  void turn_back(std::byte* rows, std::span<std::byte> buffer) const;

 private:
  tensor::Type type_ = tensor::Type::kF32;
  size_t row_length_ = 0, row_bytes_ = 0, strip_bytes_ = 0, n_strips_ = 0;
};

}  // namespace troika::prepare
