// Residuals times int8 weights with AVX2: two halves of each line.

TROIKA_INLINE inline void add_outliers_of(const Int8Panels& weight, const OutlierProduct& product,
                                          size_t strip, size_t token) {
  const int8_t* w = weight.levels_of(strip);
  const Outlier* outliers = product.outliers + token * product.stride;
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const size_t channel = outliers[i].channel;
    const auto* line = reinterpret_cast<const __m256i*>(w + channel / kInt8LineDepth * kLineBytes);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(24 - 8 * (channel % kInt8LineDepth)));
    const __m256 residual = _mm256_set1_ps(outliers[i].residual);
    unrolled<2>([&](auto h) TROIKA_INLINE {
      const __m256i levels =
          _mm256_srai_epi32(_mm256_sll_epi32(_mm256_load_si256(line + h), shift), 24);
      sums[h] = _mm256_fmadd_ps(residual, _mm256_cvtepi32_ps(levels), sums[h]);
    });
  }
  const size_t row = strip * kStripRows;
  const size_t n_rows = n_rows_of_strip(strip, weight.n_rows);
  float* y = product.y + token * product.y_stride + row;
  alignas(32) float parts[kStripRows];
  unrolled<2>([&](auto h) TROIKA_INLINE {
    _mm256_store_ps(parts + 8 * h,
                    _mm256_mul_ps(sums[h], _mm256_loadu_ps(weight.scales_of(strip) + 8 * h)));
  });
  for (size_t r = 0; r < n_rows; ++r) y[r] += parts[r];
}

void add_outliers(const Int8Panels& weight, const OutlierProduct& product) {
  for (size_t strip = product.first_strip; strip < product.last_strip; ++strip) {
    for (size_t t = 0; t < product.n_tokens; ++t) {
      if (product.counts[t] > 0) add_outliers_of(weight, product, strip, t);
    }
  }
}

// Multiplies kVectors times 8 rows from `row` on.
template <int kVectors>
TROIKA_INLINE inline void multiply_channels_of(const ChannelProduct& product, size_t row,
                                               size_t token) {
  const Outlier* outliers = product.outliers + token * product.stride;
  __m256 sums[kVectors];
  unrolled<kVectors>([&](auto v) TROIKA_INLINE { sums[v] = _mm256_setzero_ps(); });
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const int8_t* channel = product.channels[outliers[i].channel] + row;
    const __m256 residual = _mm256_set1_ps(outliers[i].residual);
    unrolled<kVectors>([&](auto v) TROIKA_INLINE {
      const __m128i levels = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(channel + 8 * v));
      sums[v] =
          _mm256_fmadd_ps(residual, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels)), sums[v]);
    });
  }
  float* y = product.y + token * product.y_stride + row;
  unrolled<kVectors>([&](auto v) TROIKA_INLINE {
    const __m256 scales = _mm256_loadu_ps(product.scales + row + 8 * v);
    _mm256_storeu_ps(y + 8 * v, _mm256_mul_ps(sums[v], scales));
  });
}

void multiply_channels(const ChannelProduct& product) {
  constexpr size_t kTogether = 8;
  for (size_t t = 0; t < product.n_tokens; ++t) {
    if (product.counts[t] == 0) continue;
    const Outlier* outliers = product.outliers + t * product.stride;
    size_t row = product.first_row;
    for (; row + 8 * kTogether <= product.last_row; row += 8 * kTogether) {
      multiply_channels_of<kTogether>(product, row, t);
    }
    for (; row + 8 <= product.last_row; row += 8) multiply_channels_of<1>(product, row, t);
    for (; row < product.last_row; ++row) {
      float sum = 0;
      for (uint32_t i = 0; i < product.counts[t]; ++i) {
        const auto level = static_cast<float>(product.channels[outliers[i].channel][row]);
        sum = __builtin_fmaf(outliers[i].residual, level, sum);
      }
      product.y[t * product.y_stride + row] = sum * product.scales[row];
    }
  }
}
