// A tile of integer dot products with AVX-512 VNNI: 64 products of unsigned levels and signed
// activations, summed in groups of four, in one instruction that cannot saturate.

// One token leaves the sums few and memory the bottleneck, which likes one row after the other.
constexpr int kTileRows(int n_tokens) { return n_tokens == 1 ? 1 : 4; }

// Picks for each lane the scale of its group from the 16 groups (or 8, twice) of a super-block.
template <int kGroup>
TROIKA_INLINE inline __m512i scale_lanes(int j) {
  if (kGroup == 16) {
    const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_add_epi32(first, _mm512_set1_epi32(4 * j));
  }
  const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  return _mm512_add_epi32(first, _mm512_set1_epi32(2 * j));
}

// Scales of weight times scales of activations, for the groups of a super-block.
template <typename Format>
TROIKA_INLINE inline __m512 group_scales(const std::byte* c, __m256 x_scales) {
  if constexpr (Format::kGroup == 16) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512 x = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(x_scales));
    return _mm512_mul_ps(Format::group_scales(c), x);
  } else {
    return _mm512_castps256_ps512(_mm256_mul_ps(Format::scales(c), x_scales));
  }
}

// Sums of the eight 32s of activations, times their scales; the upper lanes are zero.
TROIKA_INLINE inline __m512 scaled_sums(const int16_t* sums, __m256 scales) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  const __m256i whole = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  return _mm512_zextps256_ps512(_mm256_mul_ps(_mm256_cvtepi32_ps(whole), scales));
}

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_step(const std::byte* const* c, const Q8Row* x, size_t i,
                                    __m512 (&sums)[kRows][kTokens]) {
  __m512 scales[kRows][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    const __m256 x_scales = _mm256_loadu_ps(x[t].scale + i / 32);
    __m512 x_sums;
    if constexpr (Format::kHasMinima) x_sums = scaled_sums(x[t].sum + i / 16, x_scales);
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      scales[r][t] = group_scales<Format>(c[r], x_scales);
      if constexpr (Format::kHasMinima) {
        const __m512 minima = _mm512_zextps256_ps512(Format::minima(c[r]));
        sums[r][t] = _mm512_fnmadd_ps(minima, x_sums, sums[r][t]);
      }
    });
  });
  unrolled<4>([&](auto j) TROIKA_INLINE {
    __m512i xs[kTokens], starts[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      xs[t] = _mm512_loadu_si512(x[t].q + i + 64 * j);
      starts[t] = _mm512_setzero_si512();
      if constexpr (Format::kOffset != 0) {
        // What the offset of the levels adds is taken away beforehand.
        const __m512i offset = _mm512_set1_epi8(static_cast<char>(Format::kOffset));
        starts[t] = _mm512_sub_epi32(starts[t], _mm512_dpbusd_epi32(starts[t], offset, xs[t]));
      }
    });
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const __m512i levels = Format::levels(c[r], j);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m512i dots = _mm512_dpbusd_epi32(starts[t], levels, xs[t]);
        const __m512 scale = _mm512_permutexvar_ps(scale_lanes<Format::kGroup>(j), scales[r][t]);
        sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sums[r][t]);
      });
    });
  });
}

template <typename Format, int kRows, int kTokens>
void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
          size_t k, float* y, size_t y_stride) {
  const std::byte* c[kRows];
  Q8Row tokens[kTokens];
  __m512 sums[kRows][kTokens];
  unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] = row + r * row_bytes; });
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = q8_row(x + t * x_stride_bytes, k); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = _mm512_setzero_ps(); });
  });
  std::byte rest[kRows][Format::kBlock < kSuperBlock ? Format::kBytes : 1];
  for (size_t i = 0; i < k; i += kSuperBlock) {
    if (Format::kBlock < kSuperBlock && k - i < kSuperBlock) [[unlikely]] {
      unrolled<kRows>([&](auto r)
                          TROIKA_INLINE { c[r] = padded_rest<Format>(c[r], k - i, rest[r]); });
    }
    prefetch_ahead<Format, kRows>(c, row_bytes);
    tile_step<Format, kRows, kTokens>(c, tokens, i, sums);
    unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] += Format::kBytes; });
  }
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = V::sum(sums[r][t]); });
  });
}
