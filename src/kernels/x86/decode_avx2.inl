// Decodes a super-block with AVX2, to the bit as its codec does, for simd/unpack.inl.

// Returns eight bytes as floats.
template <typename Format>
TROIKA_INLINE inline __m256 eight_levels(__m128i bytes) {
  if constexpr (Format::kSigned) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  const __m256i whole = _mm256_cvtepu8_epi32(bytes);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(whole, _mm256_set1_epi32(Format::kOffset)));
}

// Stores a value for each group: one for all of them times sixteen bytes, or one for each of eight.
template <size_t kGroup>
TROIKA_INLINE inline void store_of_groups(__m256 values, __m128i multiples, float* of_groups) {
  _mm256_store_ps(of_groups, values);
  if constexpr (kGroup == 16) {
    const __m128i high = _mm_unpackhi_epi64(multiples, multiples);
    _mm256_store_ps(of_groups,
                    _mm256_mul_ps(values, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(multiples))));
    _mm256_store_ps(of_groups + 8,
                    _mm256_mul_ps(values, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))));
  }
}

template <typename Format>
void decode_256(const std::byte* c, float* values) {
  constexpr size_t kGroup = Format::kGroup;
  alignas(32) float scales[16], minima[16];
  __m128i multiples = _mm_setzero_si128(), min_multiples = multiples;
  if constexpr (kGroup == 16) multiples = Format::multiples(c);
  store_of_groups<kGroup>(Format::scales(c), multiples, scales);
  if constexpr (Format::kHasMinima) {
    if constexpr (kGroup == 16) min_multiples = Format::min_multiples(c);
    store_of_groups<kGroup>(Format::minima(c), min_multiples, minima);
  }
  for (int i = 0; i < 8; ++i) {
    const __m256i levels = Format::levels(c, i);
    const __m128i halves[2] = {_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1)};
    unrolled<4>([&](auto j) TROIKA_INLINE {
      __m128i bytes = halves[j / 2];
      if constexpr (j % 2 == 1) bytes = _mm_unpackhi_epi64(bytes, bytes);
      const size_t at = static_cast<size_t>(32 * i + 8 * j), group = at / kGroup;
      __m256 v = _mm256_mul_ps(_mm256_set1_ps(scales[group]), eight_levels<Format>(bytes));
      if constexpr (Format::kHasMinima) v = _mm256_sub_ps(v, _mm256_set1_ps(minima[group]));
      _mm256_store_ps(values + at, v);
    });
  }
}
