// Products of weights in strips with quantised activations, with NEON. Each row has an element of
// a vector, so that the whole numbers of 32 weights need not be added up across elements. The
// levels of a strip are unpacked once for all tokens. Each output is summed as `tile` sums it, to
// the bit.
//
// One instruction multiplies four levels of each of four rows by the same four activations. It
// takes these from an element, so a token's activations need not be spread over a vector. 32
// weights of four rows take eight instructions for each token.

// The scales and minima of a part's rows in a super-block. `add` adds 32 weights of these rows to
// the sums of kTokens tokens, each of which waits for its own products only.
template <Type kType>
struct StripFactors {
  using Levels = StripLevels<kType>;
  static constexpr bool kHasMinima = Levels::kHasMinima, kHasSixteens = Levels::kGroup == 16;
  static constexpr size_t kBothFrom = 0;

  Floats scales[8], minima[8];  // where groups are of 16, only the first is used, for all
  int32x4_t multiples[16];      // where groups are of 16
  int16x4_t min_multiples[16];  // where groups are of 16

  void load(StripAt c, size_t n_blocks) {
    if constexpr (!kHasSixteens) {
      Strip<kType>::scales(c, n_blocks, scales);
      if constexpr (kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
    } else {
      scales[0] = Strip<kType>::d(c);
      if constexpr (kHasMinima) minima[0] = Strip<kType>::dmin(c);
      unrolled<4>([&](auto i) TROIKA_INLINE {
        const Words word = Strip<kType>::multiples(c, i);
        Words min_word = word;
        if constexpr (kHasMinima) min_word = Strip<kType>::min_multiples(c, i);
        unrolled<4>([&](auto j) TROIKA_INLINE {
          multiples[4 * i + j] = vreinterpretq_s32_u32(signed_byte_of<j>(word));
          if constexpr (kHasMinima) {
            min_multiples[4 * i + j] =
                vmovn_s32(vreinterpretq_s32_u32(signed_byte_of<j>(min_word)));
          }
        });
      });
    }
  }

  template <int kTokens, typename Tokens>
  TROIKA_INLINE void add(const Words (&levels)[8], size_t b, const Tokens& tokens, size_t block,
                         size_t first, Floats* of_tokens) const {
    int32x4_t whole[kTokens];
    multiply<kTokens>(levels, b, tokens, block, first, whole);
    const Floats scale = scales[kHasSixteens ? 0 : b];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const float x_scale = tokens.scale(block, first + t);
      Floats sum = of_tokens[first + t];
      if constexpr (kHasMinima && kHasSixteens) {
        const int16x4_t x_sums =
            vreinterpret_s16_s32(vdup_n_s32(tokens.pair_of_sums(block, first + t)));
        const int32x4_t of_rows = vmlal_lane_s16(vmull_lane_s16(min_multiples[2 * b], x_sums, 0),
                                                 min_multiples[2 * b + 1], x_sums, 1);
        sum = vfmsq_f32(sum, minima[0], vmulq_n_f32(vcvtq_f32_s32(of_rows), x_scale));
      } else if constexpr (kHasMinima) {
        sum = vfmsq_n_f32(sum, minima[b], tokens.sum(block, first + t, 0));
      }
      of_tokens[first + t] = vfmaq_f32(sum, vcvtq_f32_s32(whole[t]), vmulq_n_f32(scale, x_scale));
    });
  }

 private:
  // Multiplies 32 weights, one half after the other; where groups are of 16, a half is a group.
  template <int kTokens, typename Tokens>
  TROIKA_INLINE void multiply(const Words (&levels)[8], size_t b, const Tokens& tokens,
                              size_t block, size_t first, int32x4_t (&whole)[kTokens]) const {
    unrolled<2>([&](auto half) TROIKA_INLINE {
      int8x16_t x[kTokens];
      int32x4_t sums[kTokens];
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        x[t] = vld1q_s8(reinterpret_cast<const int8_t*>(&tokens.four(block, first + t, 4 * half)));
        if constexpr (half == 1 && !kHasSixteens) {
          sums[t] = whole[t];
        } else if constexpr (Levels::kOffset == 0) {
          sums[t] = vdupq_n_s32(0);
        } else {
          sums[t] = vdupq_n_s32(tokens.start(block, first + t, half));
        }
      });
      unrolled<4>([&](auto i) TROIKA_INLINE {
        const int8x16_t of_rows = vreinterpretq_s8_u32(levels[4 * half + i]);
        unrolled<kTokens>(
            [&](auto t) TROIKA_INLINE { sums[t] = vdotq_laneq_s32(sums[t], of_rows, x[t], i); });
      });
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        if constexpr (!kHasSixteens) {
          whole[t] = sums[t];
        } else if constexpr (half == 0) {
          whole[t] = vmulq_s32(sums[t], multiples[2 * b]);
        } else {
          whole[t] = vmlaq_s32(whole[t], sums[t], multiples[2 * b + 1]);
        }
      });
    });
  }
};
