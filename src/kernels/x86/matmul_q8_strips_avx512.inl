// Products of weights in strips with quantised activations, with AVX-512: an element for each row,
// so that the whole numbers of a group need not be added up across elements, and the levels of a
// strip are unpacked once for all tokens. Each output is summed as `tile` sums it, to the bit.
//
// Eight of eleven instructions for 32 weights of 16 rows and a token multiply.

// Adds four products to each element, with four activations that the instruction itself spreads
// over all elements.
TROIKA_INLINE inline void add_spread_four(__m512i& sum, __m512i w, const int32_t& four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(four));
}

// Is the distance (see kStripSoon) for who fetches late: there is less time until the bytes are
// needed, and half the distance was fastest.
constexpr size_t kStripSoonLate = 1024;

// Fetches what lies ahead of a share of a strip. `share` is a number, because addresses ahead may
// lie beyond the matrix.
template <size_t kBytes, size_t kSoon>
TROIKA_INLINE inline void fetch_ahead(uintptr_t share) {
  unrolled<static_cast<int>((kBytes + 63) / 64)>([&](auto line) TROIKA_INLINE {
    const uintptr_t at = share + 64 * line;
    __builtin_prefetch(reinterpret_cast<const void*>(at + kStripAhead), 0, 2);
    __builtin_prefetch(reinterpret_cast<const void*>(at + kSoon), 0, 3);
  });
}

// Returns 0, but not before the sum is known.
TROIKA_INLINE inline uintptr_t zero_when_known(__m512i sum) {
  uintptr_t zero = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(sum)));
  asm("and $0, %0" : "+r"(zero) : : "cc");
  return zero;
}

// Returns the factors of two sums of 16 activations: `factor` for both, or only for one of them
// where groups are of 16.
template <size_t kGroup>
TROIKA_INLINE inline __m512i of_halves(int factor, int half) {
  const uint32_t one = static_cast<uint32_t>(factor) & 0xffff;
  const uint32_t both = kGroup == kQ8Block ? one | one << 16 : one << 16 * half;
  return _mm512_set1_epi32(static_cast<int>(both));
}

// Returns what the offset of a group of weights adds with a token, negated: the sum of its products
// begins with that.
template <typename Format, typename Tokens>
TROIKA_INLINE inline __m512i start_of(const Tokens& tokens, size_t block, int half, size_t t) {
  constexpr int kOffset = Format::Levels::kOffset;
  if constexpr (kOffset == 0) {
    return _mm512_setzero_si512();
  } else if constexpr (Tokens::kAreFew) {
    return _mm512_madd_epi16(_mm512_set1_epi32(tokens.pair_of_sums(block, t)),
                             of_halves<Format::kGroup>(-kOffset, half));
  } else {
    return _mm512_set1_epi32(tokens.start(block, t, half));
  }
}
// Returns the scaled sum of a token that least weights multiply.
template <typename Format, typename Tokens>
TROIKA_INLINE inline __m512 sum_of(const Tokens& tokens, size_t block, int half, size_t t,
                                   __m512 x_scale) {
  if constexpr (Tokens::kAreFew) {
    const __m512i whole = _mm512_madd_epi16(_mm512_set1_epi32(tokens.pair_of_sums(block, t)),
                                            of_halves<Format::kGroup>(1, half));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(whole), x_scale);
  } else {
    return _mm512_set1_ps(tokens.sum(block, t, half));
  }
}

// Multiplies a strip. Levels stay in registers while tokens take them.
template <Type kType>
struct StripProduct {
  using Format = Wide<kType>;
  using Levels = typename Format::Levels;
  static constexpr int kVectors = Strip<kType>::kVectors;
  static constexpr bool kCountsFew = false;
  static constexpr size_t kSums = kSuperBlock / Format::kGroup;
  static constexpr bool kHasMinima = Levels::kHasMinima;
  static constexpr size_t kBytes = kElements * Format::kBytes;  // counts bytes of a super-block
  // Says whether a weight takes a byte or more, as in Q8_0. With one token such weights wait for
  // memory only, and a processor that works ahead fetches in bursts, while the share at hand is
  // still on its way. If it fetches when a share is multiplied, and so at the pace of memory, it
  // gets up to 5 % more. Smaller weights take time to unpack, and such fetching makes them slower.
  static constexpr bool kIsOfBytes = Format::kBytes >= kSuperBlock;

  alignas(64) __m512 sums[kSums][kGroupTokens];
  alignas(64) __m512 scales[kSums];
  alignas(64) __m512 minima[kSums];

  // Adds one group of weights with kTokens tokens, each of which waits for its own products only.
  // Returns the first token's sum of products.
  template <int kTokens, typename Tokens>
  TROIKA_INLINE __m512i add_tokens(const __m512i (&levels)[kVectors], size_t group,
                                   const Tokens& tokens, size_t block, int half, size_t first) {
    __m512i whole[kTokens];
    unrolled<kTokens>(
        [&](auto t) TROIKA_INLINE { whole[t] = start_of<Format>(tokens, block, half, first + t); });
    unrolled<kVectors>([&](auto i) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        const int32_t& four = tokens.four(block, first + t, kVectors * half + i);
        if constexpr (Tokens::kAreFew) {  // the sums leave registers
          add_fours(whole[t], levels[i], _mm512_set1_epi32(four));
        } else {
          add_spread_four(whole[t], levels[i], four);
        }
      });
    });
    // The scales are read before sums are written, because the compiler assumes that writing sums
    // may change them.
    const __m512 scale = scales[group];
    __m512 minimum = _mm512_setzero_ps();
    if constexpr (kHasMinima) minimum = minima[group];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const __m512 x_scale = _mm512_set1_ps(tokens.scale(block, first + t));
      __m512& of_token = sums[Format::element_of(static_cast<int>(group))][first + t];
      __m512 sum = of_token;
      if constexpr (kHasMinima) {
        const __m512 x_sum = sum_of<Format>(tokens, block, half, first + t, x_scale);
        sum = _mm512_fnmadd_ps(minimum, x_sum, sum);
      }
      const __m512 both = _mm512_mul_ps(scale, x_scale);
      of_token = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[t]), both, sum);
    });
    return whole[0];
  }

  template <typename Tokens>
  void multiply(const std::byte* strip, size_t k, Tokens tokens, size_t n_tokens, float* y,
                size_t y_stride) {
    for (auto& of_tokens : sums) {
      for (size_t t = 0; t < n_tokens; ++t) of_tokens[t] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < k; i += kSuperBlock, strip += kBytes) {
      const size_t n_k = k - i < kSuperBlock ? k - i : kSuperBlock;
      const StripAt c = {strip, 0};
      Strip<kType>::scales(c, n_k / kQ8Block, scales);
      if constexpr (kHasMinima) Strip<kType>::minima(c, n_k / kQ8Block, minima);
      Strip<kType>::visit(
          c, n_k / kQ8Block, [&](size_t group, const __m512i(&levels)[kVectors]) TROIKA_INLINE {
            constexpr size_t kShare = kBytes / kSums;
            const uintptr_t share = reinterpret_cast<uintptr_t>(strip) + group * kShare;
            const bool fetches_late = kIsOfBytes && n_tokens == 1;
            if (!fetches_late) fetch_ahead<kShare, kStripSoon>(share);
            constexpr size_t kGroupsOfBlock = kQ8Block / Format::kGroup;
            const size_t block = i / kQ8Block + group / kGroupsOfBlock;
            const auto half = static_cast<int>(group % kGroupsOfBlock);
            size_t t = 0;
            __m512i sum = _mm512_setzero_si512();  // is set where one token is added
            const auto add_as_many_as_fit = [&](auto n) TROIKA_INLINE {
              for (; t + n <= n_tokens; t += n) {
                const __m512i first = add_tokens<n>(levels, group, tokens, block, half, t);
                if constexpr (n == 1) sum = first;
              }
            };
            if constexpr (!Tokens::kAreFew) add_as_many_as_fit(std::integral_constant<int, 8>());
            add_as_many_as_fit(std::integral_constant<int, 4>());
            add_as_many_as_fit(std::integral_constant<int, 2>());
            add_as_many_as_fit(std::integral_constant<int, 1>());
            if (fetches_late) fetch_ahead<kShare, kStripSoonLate>(share + zero_when_known(sum));
          });
    }
    for (size_t t = 0; t < n_tokens; ++t) _mm512_storeu_ps(y + t * y_stride, total_of(sums, t));
  }
};
