// A tile of integer dot products with AVX2.

// Sixteen registers hold 8 sums and what they are made from.
constexpr int kTileRows(int /*n_tokens*/) { return 2; }

// 32 products of levels, summed in groups of four; each at most 32512 in magnitude for a pair, so
// that the saturating instruction never saturates. What was added to make levels unsigned is taken
// away for all eight 32s in one go, like a minimum.
template <typename Format>
TROIKA_INLINE inline __m256i dot_32(__m256i levels, __m256i x, __m256i multiplier) {
  __m256i pairs;
  if constexpr (Format::kSigned) {
    // Level -128 becomes 128, which the unsigned operand can hold; x is never -128.
    pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(levels), _mm256_sign_epi8(x, levels));
  } else {
    pairs = _mm256_maddubs_epi16(levels, x);
  }
  return _mm256_madd_epi16(pairs, multiplier);
}

// Sums of the eight 32s of activations, times their scales. The sixteen sums are multiplied by
// words first, and here these are 1 unless groups of 16 have minima of their own.
TROIKA_INLINE inline __m256 scaled_sums(const int16_t* sums, __m256i multiples, __m256 scales) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, multiples)), scales);
}

// The multiples of sixteen groups as words: those of even groups in the first half.
TROIKA_INLINE inline __m256i evens_and_odds(__m128i multiples) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(multiples, order));
}
// Of these the two for the i-th 32 levels, as pairs of levels see them.
TROIKA_INLINE inline __m256i multiplier(__m256i evens_and_odds, int i) {
  const auto word = static_cast<int16_t>(2 * i | (2 * i + 1) << 8);
  return _mm256_shuffle_epi8(evens_and_odds, _mm256_set1_epi16(word));
}

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_step(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                    size_t i, __m256 (&sums)[kRows][kTokens]) {
  const std::byte* c[kRows];
  unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] = first + r * row_bytes; });
  alignas(32) float scales[kRows][kTokens][8];  // of weight and activation together
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i multiples[kRows];
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    if constexpr (Format::kGroup == 16) multiples[r] = evens_and_odds(Format::multiples(c[r]));
  });
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    const __m256 x_scales = _mm256_loadu_ps(x[t].scale + i / 32);
    const int16_t* sums_of_16 = x[t].sum + i / 16;
    __m256 x_sums;
    if constexpr ((Format::kHasMinima || Format::kOffset != 0) && Format::kGroup == 32) {
      x_sums = scaled_sums(sums_of_16, ones, x_scales);
    }
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const __m256 row_scales = Format::scales(c[r]);
      _mm256_store_ps(scales[r][t], _mm256_mul_ps(row_scales, x_scales));
      if constexpr (Format::kOffset != 0) {
        if constexpr (Format::kGroup == 16) {
          x_sums = scaled_sums(sums_of_16, _mm256_cvtepi8_epi16(Format::multiples(c[r])), x_scales);
        }
        const __m256 offsets = _mm256_mul_ps(row_scales, _mm256_set1_ps(Format::kOffset));
        sums[r][t] = _mm256_fnmadd_ps(offsets, x_sums, sums[r][t]);
      }
      if constexpr (Format::kHasMinima) {
        if constexpr (Format::kGroup == 16) {
          x_sums =
              scaled_sums(sums_of_16, _mm256_cvtepi8_epi16(Format::min_multiples(c[r])), x_scales);
        }
        sums[r][t] = _mm256_fnmadd_ps(Format::minima(c[r]), x_sums, sums[r][t]);
      }
    });
  });
  unrolled<8>([&](auto j) TROIKA_INLINE {
    __m256i xs[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      xs[t] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x[t].q + i + 32 * j));
    });
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const __m256i levels = Format::levels(c[r], j);
      __m256i of_pairs = ones;
      if constexpr (Format::kGroup == 16) of_pairs = multiplier(multiples[r], j);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i dots = dot_32<Format>(levels, xs[t], of_pairs);
        sums[r][t] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_set1_ps(scales[r][t][j]), sums[r][t]);
      });
    });
  });
}

template <typename Format, int kRows, int kTokens>
void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
          size_t k, float* y, size_t y_stride) {
  Q8Row tokens[kTokens];
  __m256 sums[kRows][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = q8_row(x + t * x_stride_bytes, k); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = _mm256_setzero_ps(); });
  });
  size_t i = 0;
  for (; i + kSuperBlock <= k; i += kSuperBlock, row += Format::kBytes) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    tile_step<Format, kRows, kTokens>(row, row_bytes, tokens, i, sums);
  }
  if (Format::kBlock < kSuperBlock && i < k) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    std::byte rest[kRows * Format::kBytes];
    for (size_t r = 0; r < kRows; ++r) {
      pad_rest<Format>(row + r * row_bytes, k - i, rest + r * Format::kBytes);
    }
    tile_step<Format, kRows, kTokens>(rest, Format::kBytes, tokens, i, sums);
  }
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = V::sum(sums[r][t]); });
  });
}
