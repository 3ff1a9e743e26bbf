// How AVX-512 multiplies a row of each block format with a token, 256 weights (a super-block) at a
// time, in kParts parts. Wide<kType> has
//   kBytes, kBlock           as in formats_avx2.inl, whose scales and minima serve here too
//   Token token(x, i, part)  what a part needs of the activations from the i-th on; rows share it
//   Row row(c, part)         the unpacked levels and scales of a part; tokens share it
//   add(row, token, s)       adds the part to the 16 partial sums of one output
// Levels are unsigned. What was added to make them so is taken away beforehand in whole numbers:
// the dot product starts from minus that offset times the sum of the activations.

TROIKA_INLINE inline __m512i join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
// The quarters kA, kB of `first`, then kC, kD of `second`.
template <int kA, int kB, int kC, int kD>
TROIKA_INLINE inline __m512i quarters(__m512i first, __m512i second) {
  return _mm512_shuffle_i32x4(first, second, kA | kB << 2 | kC << 4 | kD << 6);
}
TROIKA_INLINE inline __m512i load_64(const void* p) { return _mm512_loadu_si512(p); }

TROIKA_INLINE inline __m512 scaled(__m512 sum, __m512i dots, __m512 scale) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
}

// Sums of the eight 32s of activations from the i-th on, times their scales.
TROIKA_INLINE inline __m256 scaled_sums(const Q8Row& x, size_t i, __m256 scales) {
  const __m256i sums = _mm256_madd_epi16(
      load_32(reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock)), _mm256_set1_epi16(1));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales);
}
// Eight minima times eight such sums, taken away.
TROIKA_INLINE inline __m512 without_minima(__m512 sum, __m256 minima, __m256 x_sums) {
  return _mm512_fnmadd_ps(_mm512_zextps256_ps512(minima), _mm512_zextps256_ps512(x_sums), sum);
}

template <Type kType>
struct Wide;

// Super-blocks with groups of 16, which take four lanes each. A part is one half of the block.
template <Type kType>
struct GroupsOfSixteen {
  static constexpr size_t kBytes = Format<kType>::kBytes, kBlock = 256;
  static constexpr bool kHasMinima = Format<kType>::kHasMinima;
  static constexpr int kParts = 2;

  struct Token {
    __m512i levels[2], start[2];
    __m256 scale, sum;  // of the eight groups; the sums are scaled, and used only with minima
  };
  struct Row {
    __m512i levels[2];
    __m256 scale, minimum;
  };

  static Token token(const Q8Row& x, size_t i, int part) {
    i += 128 * static_cast<size_t>(part);
    // Eight sums of 16, each in the first lane of two; then of four.
    const __m128i sums = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x.sum + i / kQ8SumBlock));
    const __m512i offsets =
        _mm512_madd_epi16(_mm512_cvtepu16_epi64(sums), _mm512_set1_epi16(-Format<kType>::kOffset));
    const __m512i words = _mm512_setr_epi64(0, 0, 1, 0, 2, 0, 3, 0);
    const __m512i next_words = _mm512_add_epi64(words, _mm512_set1_epi64(4));
    const __m256 scales = _mm256_castps128_ps256(_mm_loadu_ps(x.scale + i / kQ8Block));
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    Token token = {{load_64(x.q + i), load_64(x.q + i + 64)},
                   {_mm512_maskz_permutexvar_epi64(0x55, words, offsets),
                    _mm512_maskz_permutexvar_epi64(0x55, next_words, offsets)},
                   _mm256_permutevar8x32_ps(scales, twice),
                   _mm256_setzero_ps()};
    if constexpr (kHasMinima) {
      token.sum = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(sums)), token.scale);
    }
    return token;
  }
  // 128 levels, and the scales and minima of this half of the block.
  TROIKA_INLINE static Row row_of(const std::byte* c, int part, __m512i first, __m512i second) {
    Row row = {{first, second},
               of_groups(Format<kType>::scales(c), Format<kType>::multiples(c), part),
               _mm256_setzero_ps()};
    if constexpr (kHasMinima) {
      row.minimum = of_groups(Format<kType>::minima(c), Format<kType>::min_multiples(c), part);
    }
    return row;
  }
  TROIKA_INLINE static __m512 add(const Row& row, const Token& token, __m512 sum) {
    const __m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(row.scale, token.scale));
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    if constexpr (kHasMinima) sum = without_minima(sum, row.minimum, token.sum);
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const __m512i dots = _mm512_dpbusd_epi32(token.start[j], row.levels[j], token.levels[j]);
      const __m512i my_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(4 * j));
      sum = scaled(sum, dots, _mm512_permutexvar_ps(my_lanes, scale));
    });
    return sum;
  }

 private:
  TROIKA_INLINE static __m256 of_groups(__m256 of_all, __m128i multiples, int part) {
    if (part == 1) multiples = _mm_unpackhi_epi64(multiples, multiples);
    return _mm256_mul_ps(of_all, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(multiples)));
  }
};
