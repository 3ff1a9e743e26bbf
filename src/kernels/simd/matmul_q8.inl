// Walks a product with quantised activations in tiles of rows and tokens; the arithmetic of a tile
// is each instruction set's own. Included inside of a target region and an anonymous namespace,
// after
//   template <typename Format, int kRows, int kTokens>
//   void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
//             size_t k, float* y, size_t y_stride)
// which sums each of its outputs in the same order whatever kRows and kTokens are, and
//   kTileRows(n_tokens), which returns the number of rows of a tile.

constexpr int kTileTokens = 4;
// The activations of a group of tokens should take no more than this, so that they stay in the
// second-level cache while rows pass by.
constexpr size_t kGroupBytes = 192 * 1024;

template <typename Format, int kTokens>
void matmul_q8_tokens(const MatmulWeight& weight, const std::byte* x, size_t x_stride_bytes,
                      float* y, size_t y_stride, size_t first_row, size_t n_rows) {
  constexpr int kRows = kTileRows(kTokens);
  const std::byte* row = weight.data + first_row * weight.row_bytes;
  y += first_row;
  if (n_rows == kRows) {
    tile<Format, kRows, kTokens>(row, weight.row_bytes, x, x_stride_bytes, weight.k, y, y_stride);
    return;
  }
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) {
      tile<Format, 1, 1>(row + r * weight.row_bytes, 0, x + t * x_stride_bytes, 0, weight.k,
                         y + t * y_stride + r, 0);
    }
  }
}

template <typename Format>
void matmul_q8_tiles(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  size_t group = kGroupBytes / q8_row_bytes(weight.k) / kTileTokens * kTileTokens;
  if (group < 4 * kTileTokens) group = 4 * kTileTokens;
  for (size_t first = 0; first < n_tokens; first += group) {
    const size_t last = first + group < n_tokens ? first + group : n_tokens;
    const size_t step = last - first == 1 ? kTileRows(1) : kTileRows(kTileTokens);
    for (size_t r = weight.first_row; r < weight.last_row; r += step) {
      const size_t n_rows = weight.last_row - r < step ? weight.last_row - r : step;
      for (size_t t = first; t < last; t += kTileTokens) {
        const std::byte* xt = x + t * x_stride_bytes;
        float* yt = y + t * y_stride;
        switch (last - t) {
          case 1:
            matmul_q8_tokens<Format, 1>(weight, xt, x_stride_bytes, yt, y_stride, r, n_rows);
            break;
          case 2:
            matmul_q8_tokens<Format, 2>(weight, xt, x_stride_bytes, yt, y_stride, r, n_rows);
            break;
          case 3:
            matmul_q8_tokens<Format, 3>(weight, xt, x_stride_bytes, yt, y_stride, r, n_rows);
            break;
          default:
            matmul_q8_tokens<Format, 4>(weight, xt, x_stride_bytes, yt, y_stride, r, n_rows);
        }
      }
    }
  }
}
