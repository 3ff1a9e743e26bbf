// A tile of integer dot products with AVX2.

// Sixteen registers hold 8 sums and what they are made from.
constexpr int kTileRows(int /*n_tokens*/) { return 2; }

// Whether the offset of the levels is taken away in one go for the eight 32s: with their scales and
// the sums of the activations, like a minimum.
template <typename Format>
constexpr bool kOffsetAsMinimum = Format::kOffset != 0 && Format::kGroup == 32;

// 32 products of levels, summed in groups of four; each at most 32512 in magnitude for a pair, so
// that the saturating instruction never saturates. `offset_part` are the pair sums of
// kOffset * x.
template <typename Format>
TROIKA_INLINE inline __m256i dot_32(__m256i levels, __m256i x, __m256i offset_part,
                                    __m256i multiplier) {
  __m256i pairs;
  if constexpr (Format::kSigned) {
    // Level -128 becomes 128, which the unsigned operand can hold; x is never -128.
    pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(levels), _mm256_sign_epi8(x, levels));
  } else {
    pairs = _mm256_maddubs_epi16(levels, x);
    if constexpr (Format::kOffset != 0 && !kOffsetAsMinimum<Format>) {
      pairs = _mm256_sub_epi16(pairs, offset_part);
    }
  }
  return _mm256_madd_epi16(pairs, multiplier);
}

// Sums of the eight 32s of activations, times their scales. The sixteen sums are multiplied by
// words first, and here these are 1 unless groups of 16 have minima of their own.
TROIKA_INLINE inline __m256 scaled_sums(const int16_t* sums, __m256i multiples, __m256 scales) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, multiples)), scales);
}

// The multiples of the two groups of 16 in the i-th 32 levels, as pairs of levels see them.
TROIKA_INLINE inline __m256i multiplier(const int8_t* multiples, int i) {
  const __m128i pair = _mm_loadu_si16(multiples + 2 * i);
  const __m256i both = _mm256_broadcastsi128_si256(_mm_cvtepi8_epi16(pair));
  return _mm256_shuffle_epi8(both, _mm256_setr_epi64x(0x0100010001000100, 0x0100010001000100,
                                                      0x0302030203020302, 0x0302030203020302));
}

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_step(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                    size_t i, __m256 (&sums)[kRows][kTokens]) {
  const std::byte* c[kRows];
  unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] = first + r * row_bytes; });
  alignas(32) float scales[kRows][kTokens][8];  // of weight and activation together
  alignas(16) int8_t multiples[kRows][16];
  const __m256i ones = _mm256_set1_epi16(1);
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    if constexpr (Format::kGroup == 16) {
      _mm_store_si128(reinterpret_cast<__m128i*>(multiples[r]), Format::multiples(c[r]));
    }
  });
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    const __m256 x_scales = _mm256_loadu_ps(x[t].scale + i / 32);
    const int16_t* sums_of_16 = x[t].sum + i / 16;
    __m256 x_sums;
    if constexpr ((Format::kHasMinima && Format::kGroup == 32) || kOffsetAsMinimum<Format>) {
      x_sums = scaled_sums(sums_of_16, ones, x_scales);
    }
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const __m256 row_scales = Format::scales(c[r]);
      _mm256_store_ps(scales[r][t], _mm256_mul_ps(row_scales, x_scales));
      if constexpr (kOffsetAsMinimum<Format>) {
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
    __m256i xs[kTokens], offset_parts[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      xs[t] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x[t].q + i + 32 * j));
      offset_parts[t] = _mm256_setzero_si256();
      if constexpr (Format::kOffset != 0 && !kOffsetAsMinimum<Format>) {
        offset_parts[t] = _mm256_maddubs_epi16(_mm256_set1_epi8(Format::kOffset), xs[t]);
      }
    });
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const __m256i levels = Format::levels(c[r], j);
      __m256i multiples_of_pairs = ones;
      if constexpr (Format::kGroup == 16) multiples_of_pairs = multiplier(multiples[r], j);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i dots = dot_32<Format>(levels, xs[t], offset_parts[t], multiples_of_pairs);
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
