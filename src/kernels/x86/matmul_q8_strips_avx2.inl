// Products of weights in strips with quantised activations, with AVX2: an element for each row, so
// that the whole numbers of 32 weights need not be added up across elements, and the levels of a
// strip are unpacked once for all tokens. Each output is summed as `tile` sums it, to the bit.
//
// Pairs of products are words of 16 bits. Levels of four bits leave room for eight of them, so that
// of about twenty instructions for 32 weights of 8 rows and a token, eight multiply. Needs
//   template <Type kType> struct Fours, whose kAreAdded says whether
//     add(sum, levels, x)   adds four products to each element in one instruction

// Without this, g++ 12 adds up a tree of products, for which there are too few registers.
TROIKA_INLINE inline void keep_in_register(__m256i& sum) { asm("" : "+x"(sum)); }

// The scales and minima of a part's rows in a super-block. `add` adds 32 weights of these rows to
// the sums of kTokens tokens, each of which waits for its own products only.
template <Type kType>
struct StripFactors {
  using Levels = StripLevels<kType>;
  static constexpr bool kHasMinima = Levels::kHasMinima;
  // Is the largest level. Levels are wide where twice 127 times this does not fit 16 bits.
  static constexpr int kMost = Levels::kMost;
  static constexpr bool kIsWide = 2 * 127 * kMost > 32767;
  static constexpr int kFitting = kIsWide ? 1 : 32767 / (2 * 127 * kMost);
  // Counts the vectors whose pairs of products are added up as 16-bit words before they are
  // widened: a power of two.
  static constexpr int kAtOnce = kFitting >= 8 && Levels::kGroup == 32 ? 8
                                 : kFitting >= 4                       ? 4
                                 : kFitting >= 2                       ? 2
                                                                       : 1;

  // Counts the tokens from which on add_both is faster than `add` for one part after the other,
  // which keeps a block's levels in registers (decision 44 has the figures). 0: never.
  static constexpr size_t kBothFrom = kAtOnce != 8 || kIsWide || Fours<kType>::kAreAdded ? 0
                                      : kType == Type::kQ4_K ? kLeastTokens
                                                             : 12;

  alignas(32) __m256 scales[8];
  alignas(32) __m256 minima[8];
  // The factors of both groups of 16 of a block, as words.
  alignas(32) __m256i evens[8], odds[8], offsets[8], min_pairs[8];

  void load(StripAt c, size_t n_blocks) {
    if constexpr (Levels::kGroup == 32) {
      Strip<kType>::scales(c, n_blocks, scales);
      if constexpr (kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
    } else {
      scales[0] = Strip<kType>::d(c);
      unrolled<4>([&](auto i) TROIKA_INLINE {
        const __m256i word = Strip<kType>::multiples(c, i);
        unrolled<2>([&](auto j) TROIKA_INLINE {
          evens[2 * i + j] = as_words<2 * j, 2 * j>(word);
          odds[2 * i + j] = as_words<2 * j + 1, 2 * j + 1>(word);
          offsets[2 * i + j] = _mm256_mullo_epi16(as_words<2 * j, 2 * j + 1>(word),
                                                  _mm256_set1_epi16(Levels::kOffset));
        });
      });
      if constexpr (kHasMinima) {
        minima[0] = Strip<kType>::dmin(c);
        unrolled<4>([&](auto i) TROIKA_INLINE {
          const __m256i word = Strip<kType>::min_multiples(c, i);
          min_pairs[2 * i] = as_words<0, 1>(word);
          min_pairs[2 * i + 1] = as_words<2, 3>(word);
        });
      }
    }
  }

  template <int kTokens, typename Tokens>
  TROIKA_INLINE void add(const __m256i (&levels)[8], size_t b, const Tokens& tokens, size_t block,
                         size_t first, __m256* of_tokens) const {
    __m256i whole[kTokens];
    if constexpr (Fours<kType>::kAreAdded) {
      multiply_fours<kTokens>(levels, tokens, block, first, whole);
    } else if constexpr (kIsWide) {
      multiply_wide<kTokens>(levels, tokens, block, first, whole);
    } else {
      multiply<kTokens>(levels, b, tokens, block, first, whole);
    }
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const OfToken x(tokens, block, first + t);
      of_tokens[first + t] = scaled(whole[t], b, x, of_tokens[first + t]);
    });
  }
  // Does the same for both parts of a strip, whose factors follow each other. What is read of a
  // token serves both. Only formats take it whose sums of pairs are all that has to stay in
  // registers.
  template <int kTokens, typename Tokens>
  TROIKA_INLINE static void add_both(const StripFactors* factors, const __m256i (&levels)[2][8],
                                     size_t b, const Tokens& tokens, size_t block, size_t first,
                                     __m256* const (&of_tokens)[2]) {
    static_assert(kAtOnce == 8);
    __m256i pairs[2][kTokens];
    unrolled<8>([&](auto i) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i x = _mm256_set1_epi32(tokens.four(block, first + t, i));
        unrolled<2>([&](auto part) TROIKA_INLINE {
          const __m256i more = _mm256_maddubs_epi16(levels[part][i], x);
          pairs[part][t] = i == 0 ? more : _mm256_add_epi16(pairs[part][t], more);
          keep_in_register(pairs[part][t]);
        });
      });
    });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const OfToken x(tokens, block, first + t);
      unrolled<2>([&](auto part) TROIKA_INLINE {
        const __m256i whole = _mm256_madd_epi16(pairs[part][t], _mm256_set1_epi16(1));
        __m256& sum = of_tokens[part][first + t];
        sum = factors[part].scaled(whole, b, x, sum);
      });
    });
  }

 private:
  // What the rows need to know of a token in a block beside its levels, in every element.
  struct OfToken {
    __m256 scale, sum;
    __m256i start, pair_of_sums;

    template <typename Tokens>
    TROIKA_INLINE OfToken(const Tokens& tokens, size_t block, size_t t)
        : scale(_mm256_set1_ps(tokens.scale(block, t))) {
      if constexpr (Levels::kGroup == 16) {
        pair_of_sums = _mm256_set1_epi32(tokens.pair_of_sums(block, t));
      } else {
        if constexpr (Levels::kOffset != 0) start = _mm256_set1_epi32(tokens.start(block, t, 0));
        if constexpr (kHasMinima) sum = _mm256_set1_ps(tokens.sum(block, t, 0));
      }
    }
  };
  // Scales the whole products of the b-th 32 weights with a token, and returns `sum` with them.
  TROIKA_INLINE __m256 scaled(__m256i whole, size_t b, const OfToken& x, __m256 sum) const {
    if constexpr (Levels::kGroup == 16) {
      if constexpr (Levels::kOffset != 0) {
        whole = _mm256_sub_epi32(whole, _mm256_madd_epi16(offsets[b], x.pair_of_sums));
      }
      if constexpr (kHasMinima) {
        const __m256i of_rows = _mm256_madd_epi16(min_pairs[b], x.pair_of_sums);
        sum = _mm256_fnmadd_ps(minima[0], _mm256_mul_ps(_mm256_cvtepi32_ps(of_rows), x.scale), sum);
      }
      return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scales[0], x.scale), sum);
    } else {
      if constexpr (Levels::kOffset != 0) whole = _mm256_add_epi32(whole, x.start);
      if constexpr (kHasMinima) sum = _mm256_fnmadd_ps(minima[b], x.sum, sum);
      return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scales[b], x.scale), sum);
    }
  }
  // Returns two signed bytes of each element as 16-bit words.
  template <int kFirst, int kSecond>
  TROIKA_INLINE static __m256i as_words(__m256i bytes) {
    constexpr int kOrder = kFirst << 8 | kSecond << 24;
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi32(kOrder, kOrder + 0x04000400, kOrder + 0x08000800, kOrder + 0x0c000c00));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, order), 8);
  }

  template <int kTokens, typename Tokens>
  TROIKA_INLINE void multiply(const __m256i (&levels)[8], size_t b, const Tokens& tokens,
                              size_t block, size_t first, __m256i (&whole)[kTokens]) const {
    unrolled<8 / kAtOnce>([&](auto run) TROIKA_INLINE {
      __m256i pairs[kTokens];
      unrolled<kAtOnce>([&](auto j) TROIKA_INLINE {
        constexpr int kIndex = kAtOnce * run + j;
        unrolled<kTokens>([&](auto t) TROIKA_INLINE {
          const __m256i x = _mm256_set1_epi32(tokens.four(block, first + t, kIndex));
          const __m256i more = _mm256_maddubs_epi16(levels[kIndex], x);
          pairs[t] = j == 0 ? more : _mm256_add_epi16(pairs[t], more);
          keep_in_register(pairs[t]);
        });
      });
      __m256i multiple = _mm256_set1_epi16(1);
      if constexpr (Levels::kGroup == 16) multiple = kAtOnce * run < 4 ? evens[b] : odds[b];
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i more = _mm256_madd_epi16(pairs[t], multiple);
        whole[t] = run == 0 ? more : _mm256_add_epi32(whole[t], more);
        keep_in_register(whole[t]);
      });
    });
  }
  template <int kTokens, typename Tokens>
  TROIKA_INLINE void multiply_fours(const __m256i (&levels)[8], const Tokens& tokens, size_t block,
                                    size_t first, __m256i (&whole)[kTokens]) const {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { whole[t] = _mm256_setzero_si256(); });
    unrolled<8>([&](auto i) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i x = _mm256_set1_epi32(tokens.four(block, first + t, i));
        Fours<kType>::add(whole[t], levels[i], x);
      });
    });
  }
  // Multiplies levels that need eight bits, in two halves, each of which leaves room for eight
  // pairs.
  template <int kTokens, typename Tokens>
  TROIKA_INLINE void multiply_wide(const __m256i (&levels)[8], const Tokens& tokens, size_t block,
                                   size_t first, __m256i (&whole)[kTokens]) const {
    __m256i low_pairs[kTokens], high_pairs[kTokens];
    unrolled<8>([&](auto i) TROIKA_INLINE {
      const __m256i low = low_nibbles(levels[i]), high = high_nibbles(levels[i]);
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const __m256i x = _mm256_set1_epi32(tokens.four(block, first + t, i));
        const __m256i more_low = _mm256_maddubs_epi16(low, x);
        const __m256i more_high = _mm256_maddubs_epi16(high, x);
        low_pairs[t] = i == 0 ? more_low : _mm256_add_epi16(low_pairs[t], more_low);
        high_pairs[t] = i == 0 ? more_high : _mm256_add_epi16(high_pairs[t], more_high);
        keep_in_register(low_pairs[t]);
        keep_in_register(high_pairs[t]);
      });
    });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      whole[t] = _mm256_add_epi32(_mm256_madd_epi16(low_pairs[t], _mm256_set1_epi16(1)),
                                  _mm256_madd_epi16(high_pairs[t], _mm256_set1_epi16(16)));
    });
  }
};
