// A tile of integer dot products with AVX2. Each output has eight partial sums, one for each 32
// weights of a super-block. The products of 32 weights are added up as a whole number, which is
// exact in any order, before they become one float: weights in strips, which have an element for
// each row, give the same bits (matmul_q8_strips_avx2.inl).

// Sixteen registers hold the levels of a row and all that is computed from them.
constexpr int kTileRows(int /*n_tokens*/) { return 2; }

// Returns pairs of 32 products. Each is at most 32512 in magnitude, so the saturating instruction
// never saturates.
template <typename Format>
TROIKA_INLINE inline __m256i pairs_of_32(__m256i levels, __m256i x) {
  if constexpr (Format::kSigned) {
    // Level -128 becomes 128, which the unsigned operand can hold; x is never -128.
    return _mm256_maddubs_epi16(_mm256_abs_epi8(levels), _mm256_sign_epi8(x, levels));
  } else {
    return _mm256_maddubs_epi16(levels, x);
  }
}

// Returns the sums of each of eight vectors.
TROIKA_INLINE inline __m256i sums_of_eight(const __m256i (&v)[8]) {
  const __m256i first =
      _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i last =
      _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}

// Returns the multiples of sixteen groups as words, with those of even groups in the first half.
TROIKA_INLINE inline __m256i evens_and_odds(__m128i multiples) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(multiples, order));
}
// Returns the two multiples for the i-th 32 levels, in the order in which pairs of levels stand.
TROIKA_INLINE inline __m256i multiplier(__m256i evens_and_odds, int i) {
  const auto word = static_cast<int16_t>(2 * i | (2 * i + 1) << 8);
  return _mm256_shuffle_epi8(evens_and_odds, _mm256_set1_epi16(word));
}

// A super-block of a row. Its levels are unpacked once for all tokens.
template <typename Format>
struct TileRow {
  __m256i levels[8];
  __m256i multiples;             // where groups are of 16
  __m256i offsets, min_factors;  // the factors of both sums of 16 activations of each 32
  __m256 scales, minima;

  TROIKA_INLINE explicit TileRow(const std::byte* c) : scales(Format::scales(c)) {
    unrolled<8>([&](auto j) TROIKA_INLINE { levels[j] = Format::levels(c, j); });
    offsets = _mm256_set1_epi16(Format::kOffset);
    min_factors = _mm256_set1_epi16(1);
    if constexpr (Format::kHasMinima) minima = Format::minima(c);
    if constexpr (Format::kGroup == 16) {
      const __m128i bytes = Format::multiples(c);
      multiples = evens_and_odds(bytes);
      offsets = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(bytes), offsets);
      if constexpr (Format::kHasMinima) {
        min_factors = _mm256_cvtepi8_epi16(Format::min_multiples(c));
      }
    }
  }

  // Adds the products with the activations from the i-th on. What minima take away is added first.
  TROIKA_INLINE void add(const Q8Row& x, size_t i, __m256& sums) const {
    const __m256 x_scales = _mm256_loadu_ps(x.scale + i / kQ8Block);
    const __m256i x_sums = load_32(reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock));
    if constexpr (Format::kHasMinima) {
      const __m256i whole = _mm256_madd_epi16(x_sums, min_factors);
      sums = _mm256_fnmadd_ps(minima, _mm256_mul_ps(_mm256_cvtepi32_ps(whole), x_scales), sums);
    }
    __m256i products[8];
    unrolled<8>([&](auto j) TROIKA_INLINE {
      const __m256i of_x = load_32(reinterpret_cast<const std::byte*>(x.q + i + kQ8Block * j));
      __m256i of_pairs = _mm256_set1_epi16(1);
      if constexpr (Format::kGroup == 16) of_pairs = multiplier(multiples, j);
      products[j] = _mm256_madd_epi16(pairs_of_32<Format>(levels[j], of_x), of_pairs);
    });
    __m256i whole = sums_of_eight(products);
    if constexpr (Format::kOffset != 0) {
      whole = _mm256_sub_epi32(whole, _mm256_madd_epi16(x_sums, offsets));
    }
    sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scales, x_scales), sums);
  }
};

template <typename Format, int kRows, int kTokens>
TROIKA_INLINE inline void tile_super_block(const std::byte* first, size_t row_bytes, const Q8Row* x,
                                           size_t i, __m256 (&sums)[kRows][kTokens]) {
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    const TileRow<Format> row(first + r * row_bytes);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { row.add(x[t], i, sums[r][t]); });
  });
}

template <typename Format, int kRows, int kTokens>
void tile(const std::byte* row, size_t row_bytes, const std::byte* x, size_t x_stride_bytes,
          size_t k, float* y, size_t y_stride) {
  Q8Row tokens[kTokens];
  __m256 sums[kRows][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { tokens[t] = q8_row(x + t * x_stride_bytes, k); });
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[r][t] = _mm256_setzero_ps(); });
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
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { y[t * y_stride + r] = V::sum(sums[r][t]); });
  });
}
