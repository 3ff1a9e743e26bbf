// Residuals times int8 weights with NEON: four rows at a time.

TROIKA_INLINE inline void add_outliers_of(const Int8Panels& weight, const OutlierProduct& product,
                                          size_t strip, size_t token) {
  const int8_t* w = weight.levels_of(strip);
  const Outlier* outliers = product.outliers + token * product.stride;
  float32x4_t sums[4];
  unrolled<4>([&](auto q) TROIKA_INLINE { sums[q] = vdupq_n_f32(0.0f); });
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const size_t channel = outliers[i].channel;
    const int8_t* line = w + channel / kInt8LineDepth * kLineBytes;
    const int32x4_t shift = vdupq_n_s32(static_cast<int>(24 - 8 * (channel % kInt8LineDepth)));
    const float32x4_t residual = vdupq_n_f32(outliers[i].residual);
    unrolled<4>([&](auto q) TROIKA_INLINE {
      const int32x4_t bytes = vreinterpretq_s32_s8(vld1q_s8(line + 16 * q));
      const int32x4_t levels = vshrq_n_s32(vshlq_s32(bytes, shift), 24);
      sums[q] = vfmaq_f32(sums[q], residual, vcvtq_f32_s32(levels));
    });
  }
  const size_t row = strip * kStripRows;
  const size_t n_rows = n_rows_of_strip(strip, weight.n_rows);
  float* y = product.y + token * product.y_stride + row;
  float parts[kStripRows];
  unrolled<4>([&](auto q) TROIKA_INLINE {
    vst1q_f32(parts + 4 * q, vmulq_f32(sums[q], vld1q_f32(weight.scales_of(strip) + 4 * q)));
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
  float32x4_t sums[2 * kVectors];
  unrolled<2 * kVectors>([&](auto v) TROIKA_INLINE { sums[v] = vdupq_n_f32(0.0f); });
  for (uint32_t i = 0; i < product.counts[token]; ++i) {
    const int8_t* channel = product.channels[outliers[i].channel] + row;
    const float32x4_t residual = vdupq_n_f32(outliers[i].residual);
    unrolled<kVectors>([&](auto v) TROIKA_INLINE {
      const int16x8_t levels = vmovl_s8(vld1_s8(channel + 8 * v));
      const float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(levels)));
      const float32x4_t high = vcvtq_f32_s32(vmovl_s16(vget_high_s16(levels)));
      sums[2 * v] = vfmaq_f32(sums[2 * v], residual, low);
      sums[2 * v + 1] = vfmaq_f32(sums[2 * v + 1], residual, high);
    });
  }
  float* y = product.y + token * product.y_stride + row;
  unrolled<2 * kVectors>([&](auto v) TROIKA_INLINE {
    vst1q_f32(y + 4 * v, vmulq_f32(sums[v], vld1q_f32(product.scales + row + 4 * v)));
  });
}

void multiply_channels(const ChannelProduct& product) {
  constexpr size_t kTogether = 4;
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
