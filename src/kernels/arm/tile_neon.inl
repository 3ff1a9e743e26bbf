// A tile of integer dot products with NEON's dot product of signed bytes. Each output has four
// partial sums, to which 32 weights after the other add in turn. The products of 32 weights are
// added up as a whole number, which is exact in any order, before they become one float: weights in
// strips, which have an element of a vector for each row, give the same bits
// (matmul_q8_strips_neon.inl).

constexpr int kTileRows(int n_tokens) { return n_tokens == 1 ? 1 : 2; }

// Returns the sums of each of four vectors.
TROIKA_INLINE inline int32x4_t sums_of_four(const int32x4_t (&v)[4]) {
  return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}
// Adds up all four elements, in the order in which strips add their sums.
TROIKA_INLINE inline float total(float32x4_t sums) {
  return vpadds_f32(vadd_f32(vget_low_f32(sums), vget_high_f32(sums)));
}

// The factors of four pairs of groups.
struct PairFactors {
  int32x4_t evens, odds;
  TROIKA_INLINE explicit PairFactors(int8x8_t factors) {
    const int32x4_t pairs = vreinterpretq_s32_s16(vmovl_s8(factors));
    evens = vshrq_n_s32(vshlq_n_s32(pairs, 16), 16);
    odds = vshrq_n_s32(pairs, 16);
  }
};
TROIKA_INLINE inline int8x8_t half_of(int8x16_t bytes, int half) {
  return half == 0 ? vget_low_s8(bytes) : vget_high_s8(bytes);
}

// Sums eight groups of 16 activations, in four pairs. Where groups of 16 have minima, each sum is
// first multiplied with its minimum's multiple.
TROIKA_INLINE inline int32x4_t sums_of_32s(const int16_t* x_sums) {
  return vpaddlq_s16(vld1q_s16(x_sums));
}
TROIKA_INLINE inline int32x4_t sums_of_32s(const int16_t* x_sums, int8x8_t multiples) {
  const int16x8_t sums = vld1q_s16(x_sums), factors = vmovl_s8(multiples);
  return vpaddq_s32(vmull_s16(vget_low_s16(sums), vget_low_s16(factors)),
                    vmull_s16(vget_high_s16(sums), vget_high_s16(factors)));
}

// Four times 32 weights of a row: the first or last half of a super-block. Their levels are
// unpacked once for all tokens.
template <typename Format, int kHalf>
struct HalfRow {
  Levels levels[4];
  float32x4_t scales, minima;
  PairFactors multiples;   // where groups are of 16
  int8x8_t min_multiples;  // where groups are of 16

  TROIKA_INLINE HalfRow(const std::byte* c, const float* all_scales, const float* all_minima)
      : scales(vld1q_f32(all_scales + 4 * kHalf)), multiples(vdup_n_s8(0)) {
    unrolled<4>([&](auto j) TROIKA_INLINE { levels[j] = Format::levels(c, 4 * kHalf + j); });
    if constexpr (Format::kHasMinima) minima = vld1q_f32(all_minima + 4 * kHalf);
    if constexpr (Format::kGroup == 16) {
      multiples = PairFactors(half_of(Format::multiples(c), kHalf));
      if constexpr (Format::kHasMinima) min_multiples = half_of(Format::min_multiples(c), kHalf);
    }
  }

  // Adds the products with the activations of a super-block, which begin at the i-th. What minima
  // take away is added first.
  TROIKA_INLINE void add(const Q8Row& x, size_t i, float32x4_t& sums) const {
    i += kHalf * kSuperBlock / 2;
    const float32x4_t x_scales = vld1q_f32(x.scale + i / kQ8Block);
    if constexpr (Format::kHasMinima) {
      const int16_t* x_sums = x.sum + i / kQ8SumBlock;
      int32x4_t whole;
      if constexpr (Format::kGroup == 16) {
        whole = sums_of_32s(x_sums, min_multiples);
      } else {
        whole = sums_of_32s(x_sums);
      }
      sums = vfmsq_f32(sums, minima, vmulq_f32(vcvtq_f32_s32(whole), x_scales));
    }
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t first[4], second[4];
    unrolled<4>([&](auto j) TROIKA_INLINE {
      const int8_t* q = x.q + i + kQ8Block * j;
      first[j] = vdotq_s32(zero, levels[j].val[0], vld1q_s8(q));
      second[j] =
          vdotq_s32(Format::kGroup == 16 ? zero : first[j], levels[j].val[1], vld1q_s8(q + 16));
    });
    int32x4_t whole = sums_of_four(second);
    if constexpr (Format::kGroup == 16) {
      whole = vmlaq_s32(vmulq_s32(whole, multiples.odds), sums_of_four(first), multiples.evens);
    }
    sums = vfmaq_f32(sums, vcvtq_f32_s32(whole), vmulq_f32(scales, x_scales));
  }
};

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_super_block(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                           size_t i, float32x4_t (&sums)[kRows][kTokens]) {
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    const std::byte* c = first + r * row_bytes;
    float scales[8], minima[8];
    Format::scales(c, scales);
    if constexpr (Format::kHasMinima) Format::minima(c, minima);
    unrolled<2>([&](auto half) TROIKA_INLINE {
      const HalfRow<Format, half> row(c, scales, minima);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE { row.add(x[t], i, sums[r][t]); });
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
    tile_super_block<Format, kRows, kTokens>(row, row_bytes, tokens, i, sums);
  }
  if (Format::kBlock < kSuperBlock && i < k) {
    prefetch_ahead<Format, kRows>(row, row_bytes);
    std::byte rest[kRows * Format::kBytes];
    for (size_t r = 0; r < kRows; ++r) {
      pad_rest<Format>(row + r * row_bytes, k - i, rest + r * Format::kBytes);
    }
    tile_super_block<Format, kRows, kTokens>(rest, Format::kBytes, tokens, i, sums);
  }
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = total(sums[r][t]); });
  });
}
