// Residuals times int8 weights with AVX-512: the level that a channel has in each row of a strip
// stands in one byte of the four that each lane of a line holds.

template <int kStrips>
TROIKA_INLINE inline void add_outliers_of(const Int8Panels& weight, const OutlierProduct& product,
                                          size_t strip, size_t token) {
  const size_t strip_bytes = int8_strip_bytes(weight.k);
  const int8_t* w = weight.levels_of(strip);
  const Outlier* outliers = product.outliers + token * product.stride;
  __m512 sums[kStrips];
  unrolled<kStrips>([&](auto s) TROIKA_INLINE { sums[s] = _mm512_setzero_ps(); });
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const size_t channel = outliers[i].channel;
    const int8_t* line = w + channel / kInt8LineDepth * kLineBytes;
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(24 - 8 * (channel % kInt8LineDepth)));
    const __m512 residual = _mm512_set1_ps(outliers[i].residual);
    unrolled<kStrips>([&](auto s) TROIKA_INLINE {
      const __m512i bytes = _mm512_load_si512(line + s * strip_bytes);
      const __m512i levels = _mm512_srai_epi32(_mm512_sll_epi32(bytes, shift), 24);
      sums[s] = _mm512_fmadd_ps(residual, _mm512_cvtepi32_ps(levels), sums[s]);
    });
  }
  unrolled<kStrips>([&](auto s) TROIKA_INLINE {
    const size_t row = (strip + s) * kPanelRows;
    const __mmask16 rows = V::first_lanes(n_rows_of_strip(strip + s, weight.n_rows));
    float* y = product.y + token * product.y_stride + row;
    const __m512 part = _mm512_mul_ps(sums[s], _mm512_loadu_ps(weight.scales_of(strip + s)));
    _mm512_mask_storeu_ps(y, rows, _mm512_add_ps(_mm512_maskz_loadu_ps(rows, y), part));
  });
}

void add_outliers(const Int8Panels& weight, const OutlierProduct& product) {
  size_t strip = product.first_strip;
  for (; strip + 4 <= product.last_strip; strip += 4) {
    for (size_t t = 0; t < product.n_tokens; ++t) {
      if (product.counts[t] > 0) add_outliers_of<4>(weight, product, strip, t);
    }
  }
  for (; strip < product.last_strip; ++strip) {
    for (size_t t = 0; t < product.n_tokens; ++t) {
      if (product.counts[t] > 0) add_outliers_of<1>(weight, product, strip, t);
    }
  }
}
