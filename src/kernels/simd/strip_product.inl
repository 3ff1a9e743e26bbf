// The arithmetic of a strip for instruction sets whose vectors have some of its rows: a part. Each
// output has as many partial sums as a vector of floats has elements, as in a tile of the file's
// order, to which 32 weights after the other add in turn. Levels are unpacked once for all tokens.
// After strips.inl; needs
//   template <Type kType> struct StripFactors, what the rows of a part say of a super-block beside
//     its levels, which has
//       load(c, n_blocks)
//       add<kTokens>(levels, b, tokens, block, first, of_tokens)   adds the b-th 32 weights times
//         block `block` of kTokens tokens, of which `first` is the first, to of_tokens[first] and
//         so on

// A strip is one long row, in which hardware looks ahead only to the end of a page. So bytes far
// ahead are fetched into the second-level cache, and bytes that are needed soon into the first.
constexpr size_t kStripAhead = 8192, kStripSoon = 2048;

template <Type kType>
struct StripProduct {
  // Counts bytes of a super-block.
  static constexpr size_t kBytes = kStripRows * StripLevels<kType>::kBytes;
  // If this were false, levels would be unpacked before a loop over tokens and wait in memory.
  static constexpr bool kCountsFew = true;
  static constexpr size_t kParts = kStripRows / kWordRows, kSums = V::kElements;
  static constexpr size_t kBlocks = kSuperBlock / kQ8Block;

  Floats sums[kParts][kSums][kGroupTokens];
  StripFactors<kType> factors;

  // Adds `n_blocks` blocks of 32 weights, from block `first_block` of the tokens on.
  template <typename Tokens>
  TROIKA_INLINE void add_super_block(StripAt c, size_t n_blocks, const Tokens& tokens,
                                     size_t first_block, size_t n_tokens) {
    const size_t part = c.row / kWordRows;
    factors.load(c, n_blocks);
    visit_blocks<kType>(c, n_blocks, [&](size_t b, const Words(&levels)[8]) TROIKA_INLINE {
      constexpr size_t kShare = kBytes / kBlocks / kParts;
      // The address is kept as a number, because it may lie beyond the matrix.
      const uintptr_t share = reinterpret_cast<uintptr_t>(c.c) + (part * kBlocks + b) * kShare;
      unrolled<static_cast<int>((kShare + 63) / 64)>([&](auto line) TROIKA_INLINE {
        __builtin_prefetch(reinterpret_cast<const void*>(share + kStripAhead + 64 * line), 0, 2);
        __builtin_prefetch(reinterpret_cast<const void*>(share + kStripSoon + 64 * line), 0, 3);
      });
      Floats* const of_tokens = sums[part][kSums == kBlocks ? b : b % kSums];
      const auto add = [&](auto n, size_t t) TROIKA_INLINE {
        factors.template add<n>(levels, b, tokens, first_block + b, t, of_tokens);
      };
      if constexpr (Tokens::kAreFew) {
        add(std::integral_constant<int, Tokens::kCount>(), 0);
      } else {
        size_t t = 0;
        for (; t + 4 <= n_tokens; t += 4) add(std::integral_constant<int, 4>(), t);
        if (n_tokens % 4 >= 2) {
          add(std::integral_constant<int, 2>(), t);
          t += 2;
        }
        if (n_tokens % 2 == 1) add(std::integral_constant<int, 1>(), t);
      }
    });
  }

  template <typename Tokens>
  void multiply(const std::byte* strip, size_t k, Tokens tokens, size_t n_tokens, float* y,
                size_t y_stride) {
    for (auto& of_part : sums) {
      for (auto& of_tokens : of_part) {
        for (size_t t = 0; t < n_tokens; ++t) of_tokens[t] = V::zero();
      }
    }
    for (size_t i = 0; i < k; i += kSuperBlock, strip += kBytes) {
      const size_t n_k = k - i < kSuperBlock ? k - i : kSuperBlock;
      for (size_t row = 0; row < kStripRows; row += kWordRows) {
        add_super_block({strip, row}, n_k / kQ8Block, tokens, i / kQ8Block, n_tokens);
      }
    }
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t t = 0; t < n_tokens; ++t) {
        V::store(y + t * y_stride + part * kWordRows, total(part, t));
      }
    }
  }

 private:
  // Returns the partial sums of each row, added as a tile of the file's order adds its elements.
  TROIKA_INLINE Floats total(size_t part, size_t t) const {
    Floats s[4];
    unrolled<4>([&](auto i) TROIKA_INLINE {
      s[i] = sums[part][i][t];
      if constexpr (kSums == 8) s[i] = V::add(s[i], sums[part][i + 4][t]);
    });
    return V::add(V::add(s[0], s[2]), V::add(s[1], s[3]));
  }
};
