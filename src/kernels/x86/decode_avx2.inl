// A super-block decoded with AVX2, to the bit as its codec does it: what simd/unpack.inl asks for.

// Eight bytes as floats.
template <typename Format>
TROIKA_INLINE inline __m256 eight_levels(__m128i bytes) {
  if constexpr (Format::kSigned) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  const __m256i whole = _mm256_cvtepu8_epi32(bytes);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(whole, _mm256_set1_epi32(Format::kOffset)));
}

template <typename Format>
void decode_256(const std::byte* c, float* values) {
  alignas(32) float scales[8], minima[8] = {};
  _mm256_store_ps(scales, Format::scales(c));
  if constexpr (Format::kHasMinima) _mm256_store_ps(minima, Format::minima(c));
  for (int i = 0; i < 8; ++i) {
    const __m256i levels = Format::levels(c, i);
    const __m128i halves[2] = {_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1)};
    unrolled<4>([&](auto j) TROIKA_INLINE {
      __m128i bytes = halves[j / 2];
      if constexpr (j % 2 == 1) bytes = _mm_unpackhi_epi64(bytes, bytes);
      float scale = scales[i];
      // Each 16 levels have a multiple of their own.
      if constexpr (Format::kHasMultiplier) {
        scale *= static_cast<float>(load_word<int8_t>(c + 192 + 2 * i + j / 2));
      }
      __m256 v = _mm256_mul_ps(_mm256_set1_ps(scale), eight_levels<Format>(bytes));
      if constexpr (Format::kHasMinima) v = _mm256_sub_ps(v, _mm256_set1_ps(minima[i]));
      _mm256_store_ps(values + 32 * i + 8 * j, v);
    });
  }
}
