// Says how many bytes the levels of a column take (kernels/columns.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/columns.h"

namespace troika::kernels {

// REQUIRES: n_outputs is even.
constexpr size_t column_bytes(ColumnForm form, size_t n_outputs) {
  switch (form) {
    case ColumnForm::kOffsetNibbles:
    case ColumnForm::kNibbles:
      return n_outputs / 2;
    case ColumnForm::kBytes:
    case ColumnForm::kWideBytes:
      return n_outputs;
    case ColumnForm::kHalves:
      return n_outputs * sizeof(uint16_t);
    case ColumnForm::kFloats:
      return n_outputs * sizeof(float);
  }
  return 0;
}

}  // namespace troika::kernels
