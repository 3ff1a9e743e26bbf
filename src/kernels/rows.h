// Products of single rows of a weight, wherever each of them lies (P1). Bits are those of the whole
// weight's product, because an output's sum depends on nothing but its row.
#pragma once

#include <span>

#include "kernels/kernels.h"

namespace troika::kernels {

// Rows of one weight, as in the file, anywhere in memory.
struct SingleRows {
  std::span<const std::byte* const> at;
  size_t row_bytes = 0;
  size_t k = 0;
};

// Fetches a row while those before it are multiplied. Hardware sees no order in such rows, so each
// would be waited for, line after line. It goes into the second-level cache: the first has room for
// few requests, and those of the row at hand would wait behind them.
inline void fetch_row(const std::byte* row, size_t row_bytes) {
  constexpr size_t kLineBytes = 64;
  constexpr size_t kMostBytes = 4096;  // hardware knows by then where a longer row goes on
  const size_t n_bytes = row_bytes < kMostBytes ? row_bytes : kMostBytes;
  for (size_t i = 0; i < n_bytes; i += kLineBytes) __builtin_prefetch(row + i, 0, 2);
}

// Computes y[i] = sum over k of row i * x, where x is one token in the form that `multiply` takes.
template <typename Multiply, typename Token>
void matmul_rows(Multiply* multiply, const SingleRows& rows, const Token* x, float* y) {
  constexpr size_t kRowsAhead = 2;
  const size_t n = rows.at.size();
  for (size_t i = 0; i < kRowsAhead && i < n; ++i) fetch_row(rows.at[i], rows.row_bytes);
  for (size_t i = 0; i < n; ++i) {
    if (i + kRowsAhead < n) fetch_row(rows.at[i + kRowsAhead], rows.row_bytes);
    multiply({rows.at[i], 0, rows.k, 0, 1}, 1, x, 0, y + i, 0);
  }
}

}  // namespace troika::kernels
