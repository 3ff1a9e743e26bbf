// Products of weights in strips with quantised activations, with AVX-512: a lane for each row, so
// that the whole numbers of a group need not be added up across lanes, and the levels of a strip
// are unpacked once for all tokens. Each output is summed as `tile` sums it, to the bit.
//
// Of eleven instructions for 32 weights of 16 rows and a token, eight multiply.

// A strip is one long row, and hardware looks ahead in it only to the end of a page. What is asked
// for so early arrives in the second-level cache in time, and does not crowd the first.
constexpr size_t kStripAhead = 16384;

// Written in assembly because g++ 12 otherwise copies every sum to memory and back.
TROIKA_INLINE inline void add_spread_fours(__m512i& sum, __m512i w, const int32_t& four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(four));
}

template <Type kType>
struct StripProduct {
  using Format = Wide<kType>;
  static constexpr int kVectors = Strip<kType>::kVectors;
  static constexpr size_t kSums = kSuperBlock / Format::kGroup;
  static constexpr bool kHasMinima = Format::Levels::kHasMinima;
  static constexpr size_t kBytes = kLanes * Format::kBytes;  // of a super-block

  alignas(64) __m512 sums[kSums][kMostTokens];
  alignas(64) __m512 scales[kSums];
  alignas(64) __m512 minima[kSums];

  // One group of weights with kTokens tokens, each of which waits for its own products only.
  template <int kTokens>
  TROIKA_INLINE static void add_tokens(const __m512i (&levels)[kVectors], __m512 scale,
                                       __m512 minimum, int half, const TokenBlock* tokens,
                                       __m512* of_tokens) {
    __m512i whole[kTokens];
    unrolled<kTokens>([&](auto t)
                          TROIKA_INLINE { whole[t] = _mm512_set1_epi32(tokens[t].start[half]); });
    unrolled<kVectors>([&](auto i) TROIKA_INLINE {
      unrolled<kTokens>([&](auto t) TROIKA_INLINE {
        add_spread_fours(whole[t], levels[i], tokens[t].levels[kVectors * half + i]);
      });
    });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      __m512 sum = of_tokens[t];
      if constexpr (kHasMinima) {
        sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(tokens[t].sum[half]), sum);
      }
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(tokens[t].scale));
      of_tokens[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[t]), both, sum);
    });
  }

  // `n_blocks` of 32 weights, of which each token has one of the blocks.
  void add_super_block(const std::byte* c, size_t n_blocks, const TokenBlock* tokens,
                       size_t n_tokens) {
    Strip<kType>::scales(c, n_blocks, scales);
    if constexpr (kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
    const auto add_group = [&](size_t group, const __m512i(&levels)[kVectors]) TROIKA_INLINE {
      constexpr size_t kShare = kBytes / kSums;
      unrolled<static_cast<int>((kShare + 63) / 64)>([&](auto line) TROIKA_INLINE {
        __builtin_prefetch(c + kStripAhead + group * kShare + 64 * line, 0, 2);
      });
      constexpr size_t kGroupsOfBlock = kQ8Block / Format::kGroup;
      const auto half = static_cast<int>(group % kGroupsOfBlock);
      const TokenBlock* block = tokens + group / kGroupsOfBlock * n_tokens;
      __m512* const of_tokens = sums[Format::lane_of(static_cast<int>(group))];
      __m512 minimum = _mm512_setzero_ps();
      if constexpr (kHasMinima) minimum = minima[group];
      size_t t = 0;
      const auto add_as_many_as_fit = [&](auto n) TROIKA_INLINE {
        for (; t + n <= n_tokens; t += n) {
          add_tokens<n>(levels, scales[group], minimum, half, block + t, of_tokens + t);
        }
      };
      add_as_many_as_fit(std::integral_constant<int, 8>());
      add_as_many_as_fit(std::integral_constant<int, 4>());
      add_as_many_as_fit(std::integral_constant<int, 2>());
      add_as_many_as_fit(std::integral_constant<int, 1>());
    };
    Strip<kType>::visit(c, n_blocks, add_group);
  }

  // The partial sums of each row, added as `total` adds them.
  TROIKA_INLINE __m512 total_of(size_t t) const {
    __m512 s[8];
    unrolled<8>([&](auto i) TROIKA_INLINE {
      s[i] = kSums == 16 ? _mm512_add_ps(sums[i][t], sums[(i + 8) % kSums][t]) : sums[i][t];
    });
    unrolled<4>([&](auto i) TROIKA_INLINE { s[i] = _mm512_add_ps(s[i], s[i + 4]); });
    unrolled<2>([&](auto i) TROIKA_INLINE { s[i] = _mm512_add_ps(s[i], s[i + 2]); });
    return _mm512_add_ps(s[0], s[1]);
  }

  void multiply(const std::byte* strip, size_t k, const TokenBlock* tokens, size_t n_tokens,
                float* y, size_t y_stride) {
    for (auto& of_tokens : sums) {
      for (size_t t = 0; t < n_tokens; ++t) of_tokens[t] = _mm512_setzero_ps();
    }
    constexpr size_t kBlocks = kSuperBlock / kQ8Block;
    for (size_t i = 0; i < k; i += kSuperBlock, strip += kBytes, tokens += kBlocks * n_tokens) {
      const size_t n_blocks = k - i < kSuperBlock ? (k - i) / kQ8Block : kBlocks;
      add_super_block(strip, n_blocks, tokens, n_tokens);
    }
    for (size_t t = 0; t < n_tokens; ++t) _mm512_storeu_ps(y + t * y_stride, total_of(t));
  }
};

template <Type kType>
void multiply_strips(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  const size_t n_fitting = kTokenBlocks / (q8_padded(weight.k) / kQ8Block);
  const size_t most = n_fitting < kMostTokens ? n_fitting : kMostTokens;
  const size_t n_groups = (n_tokens + most - 1) / most;
  TokenBlock tokens[kTokenBlocks];
  StripProduct<kType> product;
  for (size_t group = 0; group < n_groups; ++group) {  // of about the same size
    const size_t t = n_tokens * group / n_groups, n = n_tokens * (group + 1) / n_groups - t;
    prepare_tokens<Wide<kType>>(x + t * x_stride_bytes, x_stride_bytes, n, weight.k, tokens);
    for (size_t r = weight.first_row; r < weight.last_row; r += kLanes) {
      product.multiply(weight.data + r * weight.row_bytes, weight.k, tokens, n,
                       y + t * y_stride + r, y_stride);
    }
  }
}
