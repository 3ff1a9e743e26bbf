// Products of weights in strips with quantised activations, with AVX-512: a lane for each row, so
// that the whole numbers of a group need not be added up across lanes, and the levels of a strip
// are unpacked once for all tokens. Each output is summed as `tile` sums it, to the bit.
//
// Eight of eleven instructions for 32 weights of 16 rows and a token multiply.

// A strip is one long row, and hardware looks ahead in it only to the end of a page. So memory is
// asked for what comes into the second-level cache, and that for what comes soon into the first.
constexpr size_t kStripAhead = 8192, kStripSoon = 2048;

// Written in assembly because g++ 12 otherwise copies every sum to memory and back.
TROIKA_INLINE inline void add_spread_fours(__m512i& sum, __m512i w, const int32_t& four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(four));
}

template <Type kType>
struct StripProduct {
  using Format = Wide<kType>;
  static constexpr int kVectors = Strip<kType>::kVectors;
  static constexpr bool kCountsFew = false;
  static constexpr size_t kSums = kSuperBlock / Format::kGroup;
  static constexpr bool kHasMinima = Format::Levels::kHasMinima;
  static constexpr size_t kBytes = kLanes * Format::kBytes;  // of a super-block

  alignas(64) __m512 sums[kSums][kMostTokens];
  alignas(64) __m512 scales[kSums];
  alignas(64) __m512 minima[kSums];

  // One group of weights with kTokens tokens, each of which waits for its own products only.
  template <int kTokens, typename Tokens>
  TROIKA_INLINE static void add_tokens(const __m512i (&levels)[kVectors], __m512 scale,
                                       __m512 minimum, const Tokens& tokens, size_t block, int half,
                                       size_t first, __m512* of_tokens) {
    __m512i whole[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      whole[t] = _mm512_set1_epi32(tokens.start(block, first + t, half));
    });
    unrolled<kVectors>([&](auto i) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        add_spread_fours(whole[t], levels[i], tokens.four(block, first + t, kVectors * half + i));
      });
    });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      __m512 sum = of_tokens[first + t];
      if constexpr (kHasMinima) {
        sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(tokens.sum(block, first + t, half)), sum);
      }
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(tokens.scale(block, first + t)));
      of_tokens[first + t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[t]), both, sum);
    });
  }

  // `n_blocks` of 32 weights, from block `first_block` of the tokens on.
  template <typename Tokens>
  TROIKA_INLINE void add_super_block(StripAt c, size_t n_blocks, const Tokens& tokens,
                                     size_t first_block, size_t n_tokens) {
    Strip<kType>::scales(c, n_blocks, scales);
    if constexpr (kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
    const auto add_group = [&](size_t group, const __m512i(&levels)[kVectors]) TROIKA_INLINE {
      constexpr size_t kShare = kBytes / kSums;
      // A number, for the address may lie beyond the matrix.
      const uintptr_t share = reinterpret_cast<uintptr_t>(c.c) + group * kShare;
      unrolled<static_cast<int>((kShare + 63) / 64)>([&](auto line) TROIKA_INLINE {
        __builtin_prefetch(reinterpret_cast<const void*>(share + kStripAhead + 64 * line), 0, 2);
        __builtin_prefetch(reinterpret_cast<const void*>(share + kStripSoon + 64 * line), 0, 3);
      });
      constexpr size_t kGroupsOfBlock = kQ8Block / Format::kGroup;
      const auto half = static_cast<int>(group % kGroupsOfBlock);
      const size_t block = first_block + group / kGroupsOfBlock;
      __m512* const of_tokens = sums[Format::lane_of(static_cast<int>(group))];
      __m512 minimum = _mm512_setzero_ps();
      if constexpr (kHasMinima) minimum = minima[group];
      size_t t = 0;
      const auto add_as_many_as_fit = [&](auto n) TROIKA_INLINE {
        for (; t + n <= n_tokens; t += n) {
          add_tokens<n>(levels, scales[group], minimum, tokens, block, half, t, of_tokens);
        }
      };
      if constexpr (!Tokens::kAreFew) {
        add_as_many_as_fit(std::integral_constant<int, 8>());
      }
      add_as_many_as_fit(std::integral_constant<int, 4>());
      add_as_many_as_fit(std::integral_constant<int, 2>());
      add_as_many_as_fit(std::integral_constant<int, 1>());
    };
    Strip<kType>::visit(c, n_blocks, add_group);
  }

  template <typename Tokens>
  void multiply(const std::byte* strip, size_t k, const Tokens& tokens, size_t n_tokens, float* y,
                size_t y_stride) {
    for (auto& of_tokens : sums) {
      for (size_t t = 0; t < n_tokens; ++t) of_tokens[t] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < k; i += kSuperBlock, strip += kBytes) {
      const size_t n_k = k - i < kSuperBlock ? k - i : kSuperBlock;
      add_super_block({strip, 0}, n_k / kQ8Block, tokens, i / kQ8Block, n_tokens);
    }
    for (size_t t = 0; t < n_tokens; ++t) _mm512_storeu_ps(y + t * y_stride, total_of(sums, t));
  }
};
