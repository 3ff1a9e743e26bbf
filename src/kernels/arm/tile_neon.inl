// A tile of integer dot products with NEON's dot product of signed bytes.

constexpr int kTileRows(int n_tokens) { return n_tokens == 1 ? 1 : 2; }

// 32 products, summed in groups of four lanes; with multiples each half is scaled by its own.
template <typename Format>
TROIKA_INLINE inline int32x4_t dot_32(const Levels& levels, const Levels& x, int first_multiple,
                                      int second_multiple) {
  const int32x4_t zero = vdupq_n_s32(0);
  if constexpr (Format::kHasMultiples) {
    const int32x4_t first = vdotq_s32(zero, levels.val[0], x.val[0]);
    const int32x4_t second = vdotq_s32(zero, levels.val[1], x.val[1]);
    return vmlaq_n_s32(vmulq_n_s32(first, first_multiple), second, second_multiple);
  } else {
    return vdotq_s32(vdotq_s32(zero, levels.val[0], x.val[0]), levels.val[1], x.val[1]);
  }
}

// Takes away the minima: four 32s in each vector.
TROIKA_INLINE inline float32x4_t without_minima(float32x4_t sum, const float* minima,
                                                const float* x_scales, const int16_t* x_sums) {
  const int32x4_t whole = vpaddlq_s16(vld1q_s16(x_sums));
  const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(whole), vld1q_f32(x_scales));
  return vfmsq_f32(sum, vld1q_f32(minima), scaled);
}

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_step(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                    size_t i, float32x4_t (&sums)[kRows][kTokens]) {
  const std::byte* c[kRows];
  unrolled<kRows>([&](auto r) TROIKA_INLINE { c[r] = first + r * row_bytes; });
  float scales[kRows][8];
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    Format::scales(c[r], scales[r]);
    if constexpr (Format::kHasMinima) {
      float minima[8];
      Format::minima(c[r], minima);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const float* x_scales = x[t].scale + i / 32;
        const int16_t* x_sums = x[t].sum + i / 16;
        sums[r][t] = without_minima(sums[r][t], minima, x_scales, x_sums);
        sums[r][t] = without_minima(sums[r][t], minima + 4, x_scales + 4, x_sums + 8);
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
      if constexpr (Format::kHasMultiples) {
        first = Format::multiple(c[r], 2 * j);
        second = Format::multiple(c[r], 2 * j + 1);
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
