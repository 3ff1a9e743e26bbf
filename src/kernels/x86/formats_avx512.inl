// How AVX-512 multiplies a row of each block format with a token, 256 weights (a super-block) at a
// time. Wide<kType> has
//   Levels            the format's Ordered<kType>
//   kGroup            counts weights whose products are summed as whole numbers: 32 or 16
//   Floats            is a vector with an element for each of the 256 / kGroup groups
//   element_of(group)    returns the element of a group
//   Token token(x, i) prepares the activations from the i-th on; rows share the result
//   Row row(c)        unpacks levels and scales; tokens share the result
//   add(row, token, sums)  adds to the partial sums of an output, one for each group
//   scales(c), minima(c)   return them by element, as row() has them
// Levels are unsigned. The offset that makes them so is taken away from the whole numbers: these
// start with minus the offset times the sum of a group's activations.
//
// To each partial sum, each super-block adds first, where there are minima, minus its group's
// minimum times the scaled sum of the activations, and then the whole number times the product of
// both scales. matmul_q8_avx512.inl does the same for 16 rows at once, to the bit.

TROIKA_INLINE inline __m512i join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
// Returns the quarters kA, kB of `first`, then kC, kD of `second`.
template <int kA, int kB, int kC, int kD>
TROIKA_INLINE inline __m512i quarters(__m512i first, __m512i second) {
  return _mm512_shuffle_i32x4(first, second, kA | kB << 2 | kC << 4 | kD << 6);
}
TROIKA_INLINE inline __m512i load_64(const void* p) { return _mm512_loadu_si512(p); }

// Sums two neighbours of each quarter: two sums of the first vector, two of the second.
TROIKA_INLINE inline __m512i sums_of_twos(__m512i first, __m512i second) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(first, second),
                          _mm512_unpackhi_epi64(first, second));
}
// Sums the four elements of each quarter: first those of the first vector, then those of the
// second.
TROIKA_INLINE inline __m256i sums_of_fours(__m512i first, __m512i second) {
  const __m512i twos = sums_of_twos(first, second);
  const __m512i fours = _mm512_add_epi32(twos, _mm512_srli_epi64(twos, 32));
  const __m512i order = _mm512_castsi256_si512(_mm256_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, fours));
}
// Sums the four elements of each quarter, with sums of the first and of the second vector in turn.
TROIKA_INLINE inline __m256i sums_of_fours_in_turn(__m512i first, __m512i second) {
  const __m512i twos = sums_of_twos(first, second);
  return _mm512_cvtepi64_epi32(_mm512_add_epi32(twos, _mm512_srli_epi64(twos, 32)));
}
// Adds up fours of four vectors: each quarter has one sum of the first vector, of the second, of
// the third, of the fourth.
TROIKA_INLINE inline __m512i sums_of_fours(const __m512i (&v)[4]) {
  const __m512i low =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i high =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  return sums_of_twos(low, high);
}
TROIKA_INLINE inline __m512i dots(__m512i levels, __m512i activations) {
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, activations);
}

TROIKA_INLINE inline float total(__m256 sums) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
TROIKA_INLINE inline float total(__m512 sums) {
  return total(_mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps(sums, 1)));
}

// Returns the sums of the eight 32s of activations from the i-th on, times their scales.
TROIKA_INLINE inline __m256 scaled_sums(const Q8Row& x, size_t i, __m256 scales) {
  const __m256i sums = _mm256_madd_epi16(
      load_32(reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock)), _mm256_set1_epi16(1));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales);
}
template <Type kType>
struct Wide;

// Super-blocks with groups of 16. Four vectors of 64 levels hold four groups each, and a group's
// element stands in the quarter of its place in its vector, at the place of that vector among the
// four.
template <Type kType, int (&kElementOf)(int)>
struct GroupsOfSixteen {
  using Levels = Ordered<kType>;
  using Floats = __m512;
  static constexpr size_t kBytes = Levels::kBytes, kBlock = 256, kGroup = 16;
  static constexpr bool kHasMinima = Levels::kHasMinima;
  static constexpr int element_of(int group) { return kElementOf(group); }

  struct Token {
    __m512i levels[4], start;
    __m512 scale, sum;  // the sums are scaled, and used only with minima
  };
  struct Row {
    __m512i levels[4];
    __m512 scale, minimum;
  };

  TROIKA_INLINE static void add(const Row& row, const Token& token, Floats& sums) {
    if constexpr (kHasMinima) sums = _mm512_fnmadd_ps(row.minimum, token.sum, sums);
    __m512i products[4];
    unrolled<4>([&](auto j) TROIKA_INLINE { products[j] = dots(row.levels[j], token.levels[j]); });
    const __m512i whole = _mm512_add_epi32(token.start, sums_of_fours(products));
    sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), _mm512_mul_ps(row.scale, token.scale), sums);
  }

 protected:
  struct Order {  // by element
    alignas(64) int32_t groups[16], blocks[16];
    alignas(16) int8_t bytes[16];
  };
  static constexpr Order order() {
    Order order{};
    for (int group = 0; group < 16; ++group) {
      const int element = element_of(group);
      order.groups[element] = group;
      order.blocks[element] = group / 2;
      order.bytes[element] = static_cast<int8_t>(group);
    }
    return order;
  }
  static constexpr Order kOrder = order();

  // Returns what a token has beside its levels.
  TROIKA_INLINE static Token token_of(const Q8Row& x, size_t i) {
    const auto* words = reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock);
    const __m512i sums =
        _mm512_permutexvar_epi32(load_64(kOrder.groups), _mm512_cvtepi16_epi32(load_32(words)));
    const __m256 scales = _mm256_loadu_ps(x.scale + i / kQ8Block);
    Token token;
    token.scale = _mm512_permutexvar_ps(load_64(kOrder.blocks), _mm512_castps256_ps512(scales));
    token.start = _mm512_mullo_epi32(sums, _mm512_set1_epi32(-Levels::kOffset));
    token.sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), token.scale);
    return token;
  }
  // Returns an element for each of sixteen bytes, in the order of elements.
  TROIKA_INLINE static __m512i by_element(__m128i bytes) {
    const auto* order = reinterpret_cast<const std::byte*>(kOrder.bytes);
    return _mm512_cvtepi8_epi32(_mm_shuffle_epi8(bytes, load_16(order)));
  }
  TROIKA_INLINE static __m512 times(__m512i multiples, __m256 of_all) {
    return _mm512_mul_ps(_mm512_broadcastss_ps(_mm256_castps256_ps128(of_all)),
                         _mm512_cvtepi32_ps(multiples));
  }
};
