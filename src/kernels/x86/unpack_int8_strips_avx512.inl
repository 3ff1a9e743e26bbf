// Weights of strips as int8 panels with AVX-512 VNNI. After unpack_strips_avx512.inl.

template <Type kType>
void unpack_int8_strip(const MatmulWeight& weight, const float* largest, const Int8Strip& strip) {
  if (weight.first_row >= weight.n_strip_rows) {
    unpack_int8<ValuesOf<kType>>(weight, largest, strip);
    return;
  }
  const __m512 most = _mm512_loadu_ps(largest);
  const __mmask16 some = _mm512_cmp_ps_mask(most, _mm512_set1_ps(kQ8Smallest), _CMP_GE_OQ);
  const __m512 inverses = _mm512_maskz_div_ps(some, _mm512_set1_ps(127.0f), most);
  _mm512_storeu_ps(strip.scales, _mm512_maskz_div_ps(some, most, _mm512_set1_ps(127.0f)));
  const __m512i factors = _mm512_set1_epi8(static_cast<char>(128));
  __m512i sums = _mm512_setzero_si512();
  const std::byte* c = weight.data + weight.first_row * weight.row_bytes;
  for (size_t i = 0; i < weight.k; i += kSuperBlock, c += kPanelRows * Format<kType>::kBytes) {
    visit_strip<kType>(
        c, weight.k - i, [&](size_t at, const F(&values)[4], bool is_finite) TROIKA_INLINE {
          __m512i whole[4];
          unrolled<4>([&](auto j) TROIKA_INLINE {
            const F value = is_finite ? values[j] : finite_of(values[j]);
            whole[j] = _mm512_cvtps_epi32(_mm512_mul_ps(value, inverses));
          });
          // The lowest bytes of four words side by side.
          const __m512i byte = _mm512_set1_epi32(255), two_bytes = _mm512_set1_epi32(0xffff);
          const __m512i low =
              _mm512_ternarylogic_epi32(byte, whole[0], _mm512_slli_epi32(whole[1], 8), 0xca);
          const __m512i high =
              _mm512_ternarylogic_epi32(byte, whole[2], _mm512_slli_epi32(whole[3], 8), 0xca);
          const __m512i line =
              _mm512_ternarylogic_epi32(two_bytes, low, _mm512_slli_epi32(high, 16), 0xca);
          _mm512_store_si512(strip.levels + (i + at) * kPanelRows, line);
          sums = _mm512_dpbusd_epi32(sums, factors, line);
        });
  }
  for (size_t i = weight.k; i < int8_depth(weight.k); i += kInt8LineDepth) {
    _mm512_store_si512(strip.levels + i * kPanelRows, _mm512_setzero_si512());
  }
  _mm512_storeu_si512(strip.starts, _mm512_sub_epi32(_mm512_setzero_si512(), sums));
}
