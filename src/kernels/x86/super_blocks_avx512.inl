// How AVX-512 multiplies rows of super-blocks. After formats_avx512.inl.

// Multiplies groups of 32. The even groups share one vector, the odd ones another, with four
// elements for each group: the packed bytes hold an even group in their low halves and the next odd
// one in their high halves.
template <Type kType>
struct PairedGroups {
  using Levels = Ordered<kType>;
  using Floats = __m256;
  static constexpr size_t kBytes = Levels::kBytes, kBlock = 256, kGroup = 32;
  static constexpr int element_of(int group) { return group; }

  struct Token {
    __m512i even[2], odd[2];  // first and second halves of the groups
    __m256 scale, sum;        // for the eight groups; the sums are scaled
  };
  struct Row {
    __m512i even[2], odd[2];
    __m256 scale, minimum;
  };

  static Token token(const Q8Row& x, size_t i) {
    const __m512i a = load_64(x.q + i), b = load_64(x.q + i + 64);
    const __m512i c = load_64(x.q + i + 128), d = load_64(x.q + i + 192);
    const __m512i ab[2] = {quarters<0, 2, 0, 2>(a, b), quarters<1, 3, 1, 3>(a, b)};
    const __m512i cd[2] = {quarters<0, 2, 0, 2>(c, d), quarters<1, 3, 1, 3>(c, d)};
    const __m256 scale = _mm256_loadu_ps(x.scale + i / kQ8Block);
    return {{quarters<0, 2, 0, 2>(ab[0], cd[0]), quarters<0, 2, 0, 2>(ab[1], cd[1])},
            {quarters<1, 3, 1, 3>(ab[0], cd[0]), quarters<1, 3, 1, 3>(ab[1], cd[1])},
            scale,
            scaled_sums(x, i, scale)};
  }
  // Makes a row of 128 bytes of 4-bit levels, and of the scales and minima of the block.
  TROIKA_INLINE static Row row_of(const std::byte* levels, const std::byte* c) {
    const __m512i low = load_64(levels), high = load_64(levels + 64);
    const __m512i first = quarters<0, 2, 0, 2>(low, high), second = quarters<1, 3, 1, 3>(low, high);
    return {{low_halves(first), low_halves(second)},
            {high_halves(first), high_halves(second)},
            Format<kType>::scales(c),
            Format<kType>::minima(c)};
  }
  TROIKA_INLINE static void add(const Row& row, const Token& token, Floats& sums) {
    sums = _mm256_fnmadd_ps(row.minimum, token.sum, sums);
    const __m256i whole = sums_of_fours_in_turn(
        _mm512_dpbusd_epi32(dots(row.even[0], token.even[0]), row.even[1], token.even[1]),
        _mm512_dpbusd_epi32(dots(row.odd[0], token.odd[0]), row.odd[1], token.odd[1]));
    sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(row.scale, token.scale), sums);
  }
  TROIKA_INLINE static __m256 scales(const std::byte* c) { return Levels::scales(c); }
  TROIKA_INLINE static __m256 minima(const std::byte* c) { return Levels::minima(c); }
};

template <>
struct Wide<Type::kQ4_K> : PairedGroups<Type::kQ4_K> {
  static Row row(const std::byte* c) { return row_of(c + 16, c); }
};

template <>
struct Wide<Type::kQ5_K> : PairedGroups<Type::kQ5_K> {
  static Row row(const std::byte* c) {
    Row row = row_of(c + 48, c);
    // Bit g of a byte is the fifth bit of group g; a quarter of a vector holds half a group.
    const __m512i even = _mm512_setr_epi64(
        0x0101010101010101, 0x0101010101010101, 0x0404040404040404, 0x0404040404040404,
        0x1010101010101010, 0x1010101010101010, 0x4040404040404040, 0x4040404040404040);
    const __m512i odd = _mm512_add_epi8(even, even);
    unrolled<2>([&](auto half) TROIKA_INLINE {
      const __m512i bits = _mm512_broadcast_i32x4(load_16(c + 16 + 16 * half));
      row.even[half] = with_fifths(row.even[half], _mm512_test_epi8_mask(bits, even));
      row.odd[half] = with_fifths(row.odd[half], _mm512_test_epi8_mask(bits, odd));
    });
    return row;
  }

 private:
  TROIKA_INLINE static __m512i with_fifths(__m512i levels, __mmask64 fifths) {
    return _mm512_mask_add_epi8(levels, fifths, levels, _mm512_set1_epi8(16));
  }
};

TROIKA_INLINE inline __m512i both_halves(const std::byte* p) {
  return _mm512_broadcast_i64x4(load_32(p));
}

// Super-blocks with 2-bit levels: 64 bytes hold the first level of their columns in their lowest
// bits, then the second, ... Levels are not moved down: a level counts 1, 4 or 16 times, and its
// token's scale is as much smaller. This changes no bit of a product whose scales' product a float
// holds, because kQ8Smallest keeps scales from becoming subnormal. The last levels would count 64
// times, for which a byte has no room where there are third bits, so they are moved. Vector j holds
// the groups 2j, 2j + 1, 2j + 8, 2j + 9.
constexpr int two_bit_element(int group) { return group / 8 * 8 + group % 2 * 4 + group % 8 / 2; }

template <Type kType>
struct TwoBitGroups : GroupsOfSixteen<kType, two_bit_element> {
  using Base = GroupsOfSixteen<kType, two_bit_element>;
  using typename Base::Row;
  using typename Base::Token;

  static Token token(const Q8Row& x, size_t i) {
    Token token = Base::token_of(x, i);
    unrolled<4>([&](auto j) TROIKA_INLINE {
      const auto* q = reinterpret_cast<const std::byte*>(x.q + i + 32 * j);
      token.levels[j] = join(load_32(q), load_32(q + 128));
    });
    const __m128 less = _mm_setr_ps(1.0F, 1.0F / 4, 1.0F / 16, 1.0F / 16);
    token.start =
        _mm512_sllv_epi32(token.start, _mm512_broadcast_i32x4(_mm_setr_epi32(0, 2, 4, 4)));
    token.scale = _mm512_mul_ps(token.scale, _mm512_broadcast_f32x4(less));
    return token;
  }
};

template <int kMask>
TROIKA_INLINE inline __m512i masked(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(kMask));
}

template <>
struct Wide<Type::kQ2_K> : TwoBitGroups<Type::kQ2_K> {
  static Row row(const std::byte* c) {
    const __m512i packed = load_64(c + 16);
    return {{masked<0x03>(packed), masked<0x0c>(packed), masked<0x30>(packed),
             masked<0x30>(_mm512_srli_epi16(packed, 2))},
            scales(c),
            minima(c)};
  }
  TROIKA_INLINE static __m512 scales(const std::byte* c) {
    const __m512i low = _mm512_and_si512(by_element(load_16(c)), _mm512_set1_epi32(15));
    return times(low, Levels::scales(c));
  }
  TROIKA_INLINE static __m512 minima(const std::byte* c) {
    const __m512i bytes = by_element(load_16(c));
    const __m512i high = _mm512_and_si512(_mm512_srli_epi32(bytes, 4), _mm512_set1_epi32(15));
    return times(high, Levels::minima(c));
  }
};

template <>
struct Wide<Type::kQ3_K> : TwoBitGroups<Type::kQ3_K> {
  static Row row(const std::byte* c) {
    const __m512i packed = load_64(c + 32), thirds = both_halves(c);
    Row row;
    row.levels[0] = with_thirds<0, 0x04>(masked<0x03>(packed), thirds);
    row.levels[1] = with_thirds<1, 0x10>(masked<0x0c>(packed), thirds);
    row.levels[2] = with_thirds<2, 0x40>(masked<0x30>(packed), thirds);
    row.levels[3] = with_thirds<3, 0x40>(masked<0x30>(_mm512_srli_epi16(packed, 2)), thirds);
    row.scale = scales(c);
    return row;
  }
  // The packing is described in tensor/q3_k.h; here at once in the order of elements.
  TROIKA_INLINE static __m512 scales(const std::byte* c) {
    const __m128i bytes = load_16(c + 94);  // the wanted bytes begin at 2
    const __m128i fours =
        _mm_shuffle_epi8(bytes, _mm_setr_epi8(2, 4, 6, 8, 3, 5, 7, 9, 2, 4, 6, 8, 3, 5, 7, 9));
    const __m128i tops = _mm_shuffle_epi8(
        bytes, _mm_setr_epi8(10, 12, 10, 12, 11, 13, 11, 13, 10, 12, 10, 12, 11, 13, 11, 13));
    const __m128i low = _mm_srlv_epi32(fours, _mm_setr_epi32(0, 0, 4, 4));
    const __m128i moved = _mm_srlv_epi16(tops, _mm_setr_epi16(0, 2, 0, 2, 4, 6, 4, 6));
    const __m128i high = _mm_slli_epi16(_mm_and_si128(moved, _mm_set1_epi8(3)), 4);
    const __m128i both = _mm_ternarylogic_epi32(_mm_set1_epi8(15), low, high, 0xca);
    return times(_mm512_cvtepi8_epi32(_mm_sub_epi8(both, _mm_set1_epi8(32))), Levels::scales(c));
  }

 private:
  // The third bits of vector j are those at bit j, and at bit j + 4 for its second half.
  template <int kBit, int kValue>
  TROIKA_INLINE static __m512i with_thirds(__m512i levels, __m512i thirds) {
    const __m512i wanted =
        join(_mm256_set1_epi8(1 << kBit), _mm256_set1_epi8(static_cast<char>(16 << kBit)));
    return _mm512_mask_add_epi8(levels, _mm512_test_epi8_mask(thirds, wanted), levels,
                                _mm512_set1_epi8(kValue));
  }
};

// Vector j holds the groups 4j to 4j + 3.
constexpr int element_in_order(int group) { return group % 4 * 4 + group / 4; }

template <>
struct Wide<Type::kQ6_K> : GroupsOfSixteen<Type::kQ6_K, element_in_order> {
  static Token token(const Q8Row& x, size_t i) {
    Token token = token_of(x, i);
    unrolled<4>([&](auto j) TROIKA_INLINE { token.levels[j] = load_64(x.q + i + 64 * j); });
    return token;
  }
  static Row row(const std::byte* c) {
    const __m512i up = join(_mm256_set1_epi16(4), _mm256_set1_epi16(2));
    const __m512i down = join(_mm256_setzero_si256(), _mm256_set1_epi16(2));
    Row row;
    unrolled<2>([&](auto half) TROIKA_INLINE {
      const __m512i low = load_64(c + 64 * half);
      // The two bits of the first 32 levels are the lowest, those of the next 32 above them, ...
      const __m512i high = both_halves(c + 128 + 32 * half);
      row.levels[2 * half] = merge(low, _mm512_sllv_epi16(high, up));
      row.levels[2 * half + 1] = merge(_mm512_srli_epi16(low, 4), _mm512_srlv_epi16(high, down));
    });
    row.scale = scales(c);
    return row;
  }
  TROIKA_INLINE static __m512 scales(const std::byte* c) {
    return times(by_element(Levels::multiples(c)), Levels::scales(c));
  }

 private:
  // Each byte gets its low four bits from `low`, the next two from `high`.
  TROIKA_INLINE static __m512i merge(__m512i low, __m512i high) {
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, 0xca);
    return _mm512_and_si512(both, _mm512_set1_epi8(0x3f));
  }
};
