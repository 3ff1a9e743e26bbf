// Residuals times int8 weights with AVX-512: the level that a channel has in each row of a strip
// stands in one byte of the four that each element of a line holds.

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
    const size_t row = (strip + s) * kStripRows;
    const __mmask16 rows = V::first_elements(n_rows_of_strip(strip + s, weight.n_rows));
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

// Multiplies kVectors times 16 rows from `row` on; the last vector may be incomplete.
template <int kVectors>
TROIKA_INLINE inline void multiply_channels_of(const ChannelProduct& product, size_t row,
                                               __mmask16 last_rows, size_t token) {
  const Outlier* outliers = product.outliers + token * product.stride;
  __m512 sums[kVectors];
  unrolled<kVectors>([&](auto v) TROIKA_INLINE { sums[v] = _mm512_setzero_ps(); });
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const int8_t* channel = product.channels[outliers[i].channel] + row;
    const __m512 residual = _mm512_set1_ps(outliers[i].residual);
    unrolled<kVectors>([&](auto v) TROIKA_INLINE {
      const __mmask16 rows = v + 1 == kVectors ? last_rows : static_cast<__mmask16>(0xffff);
      const __m128i levels = _mm_maskz_loadu_epi8(rows, channel + 16 * v);
      sums[v] =
          _mm512_fmadd_ps(residual, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(levels)), sums[v]);
    });
  }
  float* y = product.y + token * product.y_stride + row;
  unrolled<kVectors>([&](auto v) TROIKA_INLINE {
    const __mmask16 rows = v + 1 == kVectors ? last_rows : static_cast<__mmask16>(0xffff);
    const __m512 scales = _mm512_maskz_loadu_ps(rows, product.scales + row + 16 * v);
    _mm512_mask_storeu_ps(y + 16 * v, rows, _mm512_mul_ps(sums[v], scales));
  });
}

void multiply_channels(const ChannelProduct& product) {
  constexpr size_t kTogether = 8;
  for (size_t t = 0; t < product.n_tokens; ++t) {
    if (product.counts[t] == 0) continue;
    size_t row = product.first_row;
    for (; row + 16 * kTogether <= product.last_row; row += 16 * kTogether) {
      multiply_channels_of<kTogether>(product, row, 0xffff, t);
    }
    for (; row < product.last_row; row += 16) {
      const size_t n = product.last_row - row < 16 ? product.last_row - row : 16;
      multiply_channels_of<1>(product, row, V::first_elements(n), t);
    }
  }
}
