// Quantises activations with AVX2, to the bit like the reference; AVX-512 uses this too.

TROIKA_INLINE inline __m256 finite(__m256 v) {
  const __m256 numbers = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
  const __m256 limit = _mm256_set1_ps(__FLT_MAX__);
  return _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), _mm256_min_ps(limit, numbers));
}

// Turns 32 floats into 32 levels and their scale.
struct Quantized {
  __m256i levels;
  float scale;
};

TROIKA_INLINE inline Quantized quantize_32(const float* x) {
  __m256 v[4];
  __m256 largest = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  unrolled<4>([&](auto j) TROIKA_INLINE {
    const __m256 given = _mm256_loadu_ps(x + 8 * j);
    odd = _mm256_or_ps(odd, _mm256_sub_ps(given, given));  // has all bits of what is no number
    v[j] = finite(given);
    largest = _mm256_max_ps(largest, _mm256_and_ps(v[j], magnitude));
  });
  __m128 best = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
  best = _mm_max_ps(best, _mm_movehl_ps(best, best));
  const float most = _mm_cvtss_f32(_mm_max_ss(best, _mm_movehdup_ps(best)));
  const bool are_all_finite = _mm256_movemask_ps(_mm256_cmp_ps(odd, odd, _CMP_UNORD_Q)) == 0;
  if (most < kQ8Smallest) {
    return {_mm256_setzero_si256(), are_all_finite ? 0.0f : __builtin_nanf("")};
  }
  const __m256 inverse = _mm256_set1_ps(127.0f / most);
  __m256i whole[4];
  unrolled<4>([&](auto j)
                  TROIKA_INLINE { whole[j] = _mm256_cvtps_epi32(_mm256_mul_ps(v[j], inverse)); });
  // Packing works on 128-bit halves, which leaves groups of four in the order 0 2 4 6 1 3 5 7.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return {_mm256_permutevar8x32_epi32(packed, order),
          are_all_finite ? most / 127.0f : __builtin_nanf("")};
}

TROIKA_INLINE inline int32_t sum_of_four(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}

void quantize_activations(const float* x, std::byte* y, size_t k) {
  const Q8Row row = q8_row(y, k);
  auto* q = const_cast<int8_t*>(row.q);
  auto* scale = const_cast<float*>(row.scale);
  auto* sum = const_cast<int16_t*>(row.sum);
  for (size_t i = 0; i < q8_padded(k); i += kQ8Block) {
    float rest[kQ8Block] = {};
    const float* block = x + i;
    if (i + kQ8Block > k) {
      if (i < k) std::memcpy(rest, x + i, (k - i) * sizeof(float));
      block = rest;
    }
    const Quantized quantized = quantize_32(block);
    scale[i / kQ8Block] = quantized.scale;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + i), quantized.levels);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), quantized.levels);
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    sum[i / 16] = static_cast<int16_t>(sum_of_four(_mm256_castsi256_si128(fours)));
    sum[i / 16 + 1] = static_cast<int16_t>(sum_of_four(_mm256_extracti128_si256(fours, 1)));
  }
}

void store_kv(Type type, const float* x, std::byte* row, size_t n) {
  if (type == Type::kF32) {
    std::memcpy(row, x, n * sizeof(float));
  } else if (type == Type::kF16) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 2 * i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    }
    reference::store_kv(type, x + i, row + 2 * i, n - i);
  } else {
    reference::store_kv(type, x, row, n);
  }
}
