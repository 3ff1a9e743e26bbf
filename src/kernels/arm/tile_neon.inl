// A tile of integer dot products with NEON's dot product of signed bytes.

constexpr int kTileRows(int n_tokens) { return n_tokens == 1 ? 1 : 2; }

// 32 products, summed in groups of four lanes; with multiples each half is scaled by its own.
template <typename Format>
TROIKA_INLINE inline int32x4_t dot_32(const Levels& levels, const Levels& x, int first_multiple,
                                      int second_multiple) {
  const int32x4_t zero = vdupq_n_s32(0);
  if constexpr (Format::kGroup == 16) {
    const int32x4_t first = vdotq_s32(zero, levels.val[0], x.val[0]);
    const int32x4_t second = vdotq_s32(zero, levels.val[1], x.val[1]);
    return vmlaq_n_s32(vmulq_n_s32(first, first_multiple), second, second_multiple);
  } else {
    return vdotq_s32(vdotq_s32(zero, levels.val[0], x.val[0]), levels.val[1], x.val[1]);
  }
}

// The sums of eight 16s of activations, in four pairs; times their minima's multiples first, where
// groups of 16 have them.
TROIKA_INLINE inline int32x4_t sums_of_32s(const int16_t* x_sums) {
  return vpaddlq_s16(vld1q_s16(x_sums));
}
TROIKA_INLINE inline int32x4_t sums_of_32s(const int16_t* x_sums, int8x8_t multiples) {
  const int16x8_t sums = vld1q_s16(x_sums), factors = vmovl_s8(multiples);
  return vpaddq_s32(vmull_s16(vget_low_s16(sums), vget_low_s16(factors)),
                    vmull_s16(vget_high_s16(sums), vget_high_s16(factors)));
}

// Takes away the minima: four 32s in each vector.
TROIKA_INLINE inline float32x4_t without_minima(float32x4_t sum, const float* minima,
                                                const float* x_scales, int32x4_t whole) {
  const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(whole), vld1q_f32(x_scales));
  return vfmsq_f32(sum, vld1q_f32(minima), scaled);
}

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_step(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                    size_t i, float32x4_t (&sums)[kRows][kTokens]) {
  const std::byte* c[kRows];
  unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] = first + r * row_bytes; });
  float scales[kRows][8];
  int8_t multiples[kRows][16];
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    Format::scales(c[r], scales[r]);
    if constexpr (Format::kGroup == 16) vst1q_s8(multiples[r], Format::multiples(c[r]));
    if constexpr (Format::kHasMinima) {
      float minima[8];
      Format::minima(c[r], minima);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const float* x_scales = x[t].scale + i / 32;
        const int16_t* x_sums = x[t].sum + i / 16;
        int32x4_t first, second;
        if constexpr (Format::kGroup == 16) {
          const int8x16_t factors = Format::min_multiples(c[r]);
          first = sums_of_32s(x_sums, vget_low_s8(factors));
          second = sums_of_32s(x_sums + 8, vget_high_s8(factors));
        } else {
          first = sums_of_32s(x_sums);
          second = sums_of_32s(x_sums + 8);
        }
        sums[r][t] = without_minima(sums[r][t], minima, x_scales, first);
        sums[r][t] = without_minima(sums[r][t], minima + 4, x_scales + 4, second);
      });
    }
  });
  unrolled<8>([&](auto j) TROIKA_INLINE {
    Levels xs[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      xs[t] = {{vld1q_s8(x[t].q + i + 32 * j), vld1q_s8(x[t].q + i + 32 * j + 16)}};
    });
    unrolled<kRows>([&](auto r) TROIKA_INLINE {
      const Levels levels = Format::levels(c[r], j);
      int first = 1, second = 1;
      if constexpr (Format::kGroup == 16) {
        first = multiples[r][2 * j];
        second = multiples[r][2 * j + 1];
      }
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const int32x4_t dots = dot_32<Format>(levels, xs[t], first, second);
        const float scale = scales[r][j] * x[t].scale[i / 32 + j];
        sums[r][t] = vfmaq_n_f32(sums[r][t], vcvtq_f32_s32(dots), scale);
      });
    });
  });
}

template <typename Format, int kRows, int kTokens>
void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
          size_t k, float* y, size_t y_stride) {
  Q8Row tokens[kTokens];
  float32x4_t sums[kRows][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = q8_row(x + t * x_stride_bytes, k); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = vdupq_n_f32(0); });
  });
  size_t i = 0;
  for (; i + kSuperBlock <= k; i += kSuperBlock, row += Format::kBytes) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    tile_step<Format, kRows, kTokens>(row, row_bytes, tokens, i, sums);
  }
  if (Format::kBlock < kSuperBlock && i < k) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    std::byte rest[kRows * Format::kBytes];
    for (size_t r = 0; r < kRows; ++r) {
      pad_rest<Format>(row + r * row_bytes, k - i, rest + r * Format::kBytes);
    }
    tile_step<Format, kRows, kTokens>(rest, Format::kBytes, tokens, i, sums);
  }
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = V::sum(sums[r][t]); });
  });
}
