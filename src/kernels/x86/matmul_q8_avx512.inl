// Products with quantised activations of several tokens with AVX-512. What a tile makes of the
// activations does not depend on the row, so it is made once for many rows and waits in the
// second-level cache; what it makes of a row serves up to eight tokens from registers. Each output
// is summed as `tile` sums it, to the bit: 256 products after the other in the same 16 partial
// sums.

constexpr int kWideTokens = 8;
constexpr size_t kWideRows = 32;  // for which prepared activations serve
// Super-blocks that are prepared at a time. Few of them would fit the first-level cache, but then
// rows are read in short pieces, and memory gives those slowly.
constexpr size_t kWideBlocks = 16;

template <typename Format>
struct WideTile {
  using Token = typename Format::Token;
  static constexpr int kParts = Format::kParts;

  alignas(64) Token tokens[kWideTokens][kWideBlocks * static_cast<size_t>(kParts)];
  alignas(64) __m512 sums[kWideRows][kWideTokens];

  template <int kTokens>
  void prepare(const Q8Row (&x)[kTokens], size_t i, size_t n_blocks) {
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t b = 0; b < n_blocks; ++b) {
        unrolled<kParts>([&](auto part) TROIKA_INLINE {
          tokens[t][b * kParts + part] = Format::token(x[t], i + b * kSuperBlock, part);
        });
      }
    }
  }

  // One super-block of kRows rows, for which the b-th prepared one is.
  template <int kRows, int kTokens>
  TROIKA_INLINE void step(const std::byte* c, size_t row_bytes, size_t b,
                          __m512 (&s)[kRows][kTokens]) {
    unrolled<kParts>([&](auto part) TROIKA_INLINE {
      typename Format::Row rows[kRows];
      unrolled<kRows>([&](auto r)
                          TROIKA_INLINE { rows[r] = Format::row(c + r * row_bytes, part); });
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const Token& token = tokens[t][b * kParts + part];
        unrolled<kRows>([&](auto r)
                            TROIKA_INLINE { s[r][t] = Format::add(rows[r], token, s[r][t]); });
      });
    });
  }

  // Adds n_blocks super-blocks of kRows rows, row_bytes apart, and the n_rest weights behind them
  // to the sums from `row` on.
  template <int kRows, int kTokens>
  void add(const std::byte* c, size_t row_bytes, size_t n_blocks, size_t n_rest, size_t row) {
    __m512 s[kRows][kTokens];
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE { s[r][t] = sums[row + r][t]; });
    });
    for (size_t b = 0; b < n_blocks; ++b, c += Format::kBytes) {
      prefetch_ahead<Format, kRows>(c, row_bytes);
      step<kRows, kTokens>(c, row_bytes, b, s);
    }
    if (Format::kBlock < kSuperBlock && n_rest > 0) {
      prefetch_ahead<Format, kRows>(c, row_bytes);
      std::byte rest[kRows * Format::kBytes];
      for (size_t r = 0; r < kRows; ++r) {
        pad_rest<Format>(c + r * row_bytes, n_rest, rest + r * Format::kBytes);
      }
      step<kRows, kTokens>(rest, Format::kBytes, n_blocks, s);
    }
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[row + r][t] = s[r][t]; });
    });
  }

  template <int kTokens>
  void add_rows(const std::byte* c, size_t row_bytes, size_t n_blocks, size_t n_rest,
                size_t n_rows) {
    constexpr int kRows = 2;
    size_t row = 0;
    for (; row + kRows <= n_rows; row += kRows) {
      add<kRows, kTokens>(c + row * row_bytes, row_bytes, n_blocks, n_rest, row);
    }
    if (row < n_rows) {
      add<1, kTokens>(c + row * row_bytes, row_bytes, n_blocks, n_rest, row);
    }
  }

  // Rows first_row .. first_row + n_rows, at most kWideRows.
  template <int kTokens>
  void multiply(const MatmulWeight& weight, size_t first_row, size_t n_rows, const std::byte* x,
                size_t x_stride_bytes, float* y, size_t y_stride) {
    Q8Row rows_of_x[kTokens];
    unrolled<kTokens>(
        [&](auto t) TROIKA_INLINE { rows_of_x[t] = q8_row(x + t * x_stride_bytes, weight.k); });
    for (size_t r = 0; r < n_rows; ++r) {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = _mm512_setzero_ps(); });
    }
    const std::byte* c = weight.data + first_row * weight.row_bytes;
    const size_t n_all = (weight.k + kSuperBlock - 1) / kSuperBlock;
    for (size_t b = 0; b < n_all; b += kWideBlocks) {
      const size_t n_blocks = n_all - b < kWideBlocks ? n_all - b : kWideBlocks;
      const bool is_last = b + n_blocks == n_all;
      const size_t n_rest = is_last ? weight.k % kSuperBlock : 0;
      prepare<kTokens>(rows_of_x, b * kSuperBlock, n_blocks);
      add_rows<kTokens>(c + b * Format::kBytes, weight.row_bytes, n_blocks - (n_rest > 0), n_rest,
                        n_rows);
    }
    y += first_row;
    for (size_t r = 0; r < n_rows; ++r) {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = V::sum(sums[r][t]); });
    }
  }
};

template <typename Format>
void matmul_q8(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
               size_t x_stride_bytes, float* y, size_t y_stride) {
  if (n_tokens < 5) {  // too few for the detour
    matmul_q8_tiles<Format>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
    return;
  }
  WideTile<Format> work;
  for (size_t r = weight.first_row; r < weight.last_row; r += kWideRows) {
    const size_t n_rows = weight.last_row - r < kWideRows ? weight.last_row - r : kWideRows;
    const auto multiply = [&](size_t t, auto count) TROIKA_INLINE {
      work.template multiply<count>(weight, r, n_rows, x + t * x_stride_bytes, x_stride_bytes,
                                    y + t * y_stride, y_stride);
    };
    size_t t = 0;
    for (; t + 8 <= n_tokens; t += 8) multiply(t, std::integral_constant<int, 8>());
    switch (n_tokens - t) {
      case 7:
        multiply(t, std::integral_constant<int, 7>());
        break;
      case 6:
        multiply(t, std::integral_constant<int, 6>());
        break;
      case 5:
        multiply(t, std::integral_constant<int, 5>());
        break;
      case 4:
        multiply(t, std::integral_constant<int, 4>());
        break;
      case 3:
        multiply(t, std::integral_constant<int, 3>());
        break;
      case 2:
        multiply(t, std::integral_constant<int, 2>());
        break;
      case 1:
        multiply(t, std::integral_constant<int, 1>());
        break;
    }
  }
}
