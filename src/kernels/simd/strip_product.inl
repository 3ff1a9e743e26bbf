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
//       kBothFrom   is 0, or says that there are two parts, and from how many tokens on add_both,
//         which does that for both, is faster

template <Type kType>
struct StripProduct {
  // Counts bytes of a super-block.
  static constexpr size_t kBytes = kStripRows * StripLevels<kType>::kBytes;
  // If this were false, levels would be unpacked before a loop over tokens and wait in memory.
  static constexpr bool kCountsFew = true;
  static constexpr size_t kParts = kStripRows / kWordRows, kSums = V::kElements;
  static constexpr size_t kBlocks = kSuperBlock / kQ8Block;

  Floats sums[kParts][kSums][kGroupTokens];
  static constexpr bool kTakesBoth = StripFactors<kType>::kBothFrom > 0;
  StripFactors<kType> factors[kTakesBoth ? 2 : 1];
  // Levels of both parts wait here for their tokens.
  alignas(64) Words unpacked[kTakesBoth ? kBlocks : 1][2][8];

  // Adds `n_blocks` blocks of 32 weights, from block `first_block` of the tokens on, to the sums of
  // a part.
  template <typename Tokens>
  TROIKA_INLINE void add_part(StripAt c, size_t n_blocks, const Tokens& tokens, size_t first_block,
                              size_t n_tokens) {
    factors[0].load(c, n_blocks);
    visit_blocks<kType>(c, n_blocks, [&](size_t b, const Words(&levels)[8]) TROIKA_INLINE {
      fetch_ahead(c, b);
      Floats* const of_tokens = sums_of(c, b);
      const auto add = [&](auto n, size_t t) TROIKA_INLINE {
        factors[0].template add<n>(levels, b, tokens, first_block + b, t, of_tokens);
      };
      if constexpr (Tokens::kAreFew) {
        add(std::integral_constant<int, Tokens::kCount>(), 0);
      } else {
        by_fours(n_tokens, add);
      }
    });
  }

  // Does that for both parts. Their levels are unpacked first.
  template <typename Tokens>
  TROIKA_INLINE void add_both_parts(const std::byte* strip, size_t n_blocks, const Tokens& tokens,
                                    size_t first_block, size_t n_tokens) {
    unrolled<2>([&](auto part) TROIKA_INLINE {
      const StripAt c = {strip, part * kWordRows};
      factors[part].load(c, n_blocks);
      visit_blocks<kType>(c, n_blocks, [&](size_t b, const Words(&levels)[8]) TROIKA_INLINE {
        fetch_ahead(c, b);
        unrolled<8>([&](auto i) TROIKA_INLINE { unpacked[b][part][i] = levels[i]; });
      });
    });
    for (size_t b = 0; b < n_blocks; ++b) {
      Floats* const of_tokens[2] = {sums_of({strip, 0}, b), sums_of({strip, kWordRows}, b)};
      by_fours(n_tokens, [&](auto n, size_t t) TROIKA_INLINE {
        StripFactors<kType>::template add_both<n>(factors, unpacked[b], b, tokens, first_block + b,
                                                  t, of_tokens);
      });
    }
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
      const size_t n_blocks = n_k / kQ8Block, first_block = i / kQ8Block;
      if constexpr (kTakesBoth && !Tokens::kAreFew) {
        if (n_tokens >= StripFactors<kType>::kBothFrom) {
          add_both_parts(strip, n_blocks, tokens, first_block, n_tokens);
          continue;
        }
      }
      for (size_t row = 0; row < kStripRows; row += kWordRows) {
        add_part({strip, row}, n_blocks, tokens, first_block, n_tokens);
      }
    }
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t t = 0; t < n_tokens; ++t) {
        V::store(y + t * y_stride + part * kWordRows, total(part, t));
      }
    }
  }

 private:
  // Calls add(n, t) for tokens from t on: four of them as often as possible.
  template <typename Add>
  TROIKA_INLINE static void by_fours(size_t n_tokens, Add add) {
    size_t t = 0;
    for (; t + 4 <= n_tokens; t += 4) add(std::integral_constant<int, 4>(), t);
    if (n_tokens % 4 >= 2) {
      add(std::integral_constant<int, 2>(), t);
      t += 2;
    }
    if (n_tokens % 2 == 1) add(std::integral_constant<int, 1>(), t);
  }
  // Fetches a part's share of a block of 32, as far ahead as is said above.
  TROIKA_INLINE static void fetch_ahead(StripAt c, size_t b) {
    constexpr size_t kShare = kBytes / kBlocks / kParts;
    const size_t part = c.row / kWordRows;
    // The address is kept as a number, because it may lie beyond the matrix.
    const uintptr_t share = reinterpret_cast<uintptr_t>(c.c) + (part * kBlocks + b) * kShare;
    unrolled<static_cast<int>((kShare + 63) / 64)>([&](auto line) TROIKA_INLINE {
      __builtin_prefetch(reinterpret_cast<const void*>(share + kStripAhead + 64 * line), 0, 2);
      __builtin_prefetch(reinterpret_cast<const void*>(share + kStripSoon + 64 * line), 0, 3);
    });
  }
  // Returns the partial sums that the b-th 32 weights of a super-block add to.
  TROIKA_INLINE Floats* sums_of(StripAt c, size_t b) {
    return sums[c.row / kWordRows][kSums == kBlocks ? b : b % kSums];
  }
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
