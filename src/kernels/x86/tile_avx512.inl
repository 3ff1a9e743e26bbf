// A tile of integer dot products with AVX-512 VNNI: 64 products of unsigned levels and signed
// activations, summed in groups of four, in one instruction that cannot saturate.

// Four rows are faster even for one token, because they share what is made of its activations.
constexpr int kTileRows(int /*n_tokens*/) { return 4; }

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_super_block(const std::byte* c, size_t row_bytes, const Q8Row* x,
                                           size_t i,
                                           typename Format::Floats (&sums)[kRows][kTokens]) {
  typename Format::Token tokens[kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = Format::token(x[t], i); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    const typename Format::Row row = Format::row(c + r * row_bytes);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { Format::add(row, tokens[t], sums[r][t]); });
  });
}

template <typename Format, int kRows, int kTokens>
void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
          size_t k, float* y, size_t y_stride) {
  Q8Row tokens[kTokens];
  typename Format::Floats sums[kRows][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = q8_row(x + t * x_stride_bytes, k); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = typename Format::Floats{}; });
  });
  size_t i = 0;
  for (; i + kSuperBlock <= k; i += kSuperBlock, row += Format::kBytes) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    tile_super_block<Format, kRows, kTokens>(row, row_bytes, tokens, i, sums);
  }
  if (Format::kBlock < kSuperBlock && i < k) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    std::byte rest[kRows * Format::kBytes];
    for (size_t r = 0; r < kRows; ++r) {
      pad_rest<Format>(row + r * row_bytes, k - i, rest + r * Format::kBytes);
    }
    tile_super_block<Format, kRows, kTokens>(rest, Format::kBytes, tokens, i, sums);
  }
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = total(sums[r][t]); });
  });
}
