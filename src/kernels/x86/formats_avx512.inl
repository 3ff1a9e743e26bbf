// How AVX-512 multiplies a row of each block format with a token, 256 weights (a super-block) at a
// time, in kParts parts:
//   kBytes, kBlock           as in formats_avx2.inl, whose scales and minima serve here too
//   Token token(x, i, part)  what a part needs of the activations from the i-th on; rows share it
//   Row row(c, part)         the unpacked levels and scales of a part; tokens share it
//   add(row, token, s)       adds the part to the 16 partial sums of one output
// Levels are unsigned. What was added to make them so is taken away beforehand in whole numbers:
// the dot product starts from minus that offset times the sum of the activations.

TROIKA_INLINE inline __m512i join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
// The quarters kA, kB of `first`, then kC, kD of `second`.
template <int kA, int kB, int kC, int kD>
TROIKA_INLINE inline __m512i quarters(__m512i first, __m512i second) {
  return _mm512_shuffle_i32x4(first, second, kA | kB << 2 | kC << 4 | kD << 6);
}
TROIKA_INLINE inline __m512i load_64(const void* p) { return _mm512_loadu_si512(p); }

TROIKA_INLINE inline __m512 scaled(__m512 sum, __m512i dots, __m512 scale) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
}

// Picks 16 bytes from each of four blocks, kStride bytes apart, out of two loads of 64 bytes that
// begin at kHead and kTail: indices of 16-bit words.
struct WordIndex {
  alignas(64) uint16_t words[32];
};
template <int kFirst, int kStride, int kHead, int kTail>
constexpr WordIndex four_blocks_index() {
  WordIndex index{};
  for (int i = 0; i < 32; ++i) {
    const int byte = kFirst + i / 8 * kStride + i % 8 * 2;
    index.words[i] =
        static_cast<uint16_t>(byte < kHead + 64 ? (byte - kHead) / 2 : (byte - kTail) / 2 + 32);
  }
  return index;
}
template <int kFirst, int kStride, int kHead, int kTail>
TROIKA_INLINE inline __m512i four_blocks(__m512i head, __m512i tail) {
  static constexpr WordIndex kIndex = four_blocks_index<kFirst, kStride, kHead, kTail>();
  return _mm512_permutex2var_epi16(head, load_64(kIndex.words), tail);
}

TROIKA_INLINE inline __m512i low_halves(__m512i pairs) {
  return _mm512_and_si512(pairs, _mm512_set1_epi8(15));
}
TROIKA_INLINE inline __m512i high_halves(__m512i pairs) {
  return low_halves(_mm512_srli_epi16(pairs, 4));
}

// Formats with blocks of 32 weights. Four blocks share a vector: first their first halves side by
// side, then their second halves, so that both add up in the same lanes, four for each block.
struct EightBlocks {
  static constexpr size_t kBlock = 32;
  static constexpr int kParts = 1;

  struct Token {
    __m512i first[2], second[2];  // halves of four blocks
    __m512i start[2];
    __m256 scale;  // of the eight blocks
  };
  struct Row {
    __m512i first[2], second[2];
    __m256 scale;
  };

  template <int kOffset>
  TROIKA_INLINE static Token token_with(const Q8Row& x, size_t i) {
    Token token;
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const __m512i low = load_64(x.q + i + 128 * j), high = load_64(x.q + i + 128 * j + 64);
      token.first[j] = quarters<0, 2, 0, 2>(low, high);
      token.second[j] = quarters<1, 3, 1, 3>(low, high);
      // Eight sums of 16, each in the first lane of two.
      const auto* sums = reinterpret_cast<const __m128i*>(x.sum + i / kQ8SumBlock + 8 * j);
      token.start[j] = _mm512_madd_epi16(_mm512_cvtepu16_epi64(_mm_loadu_si128(sums)),
                                         _mm512_set1_epi16(-kOffset));
    });
    token.scale = _mm256_loadu_ps(x.scale + i / kQ8Block);
    return token;
  }
  TROIKA_INLINE static __m512 add(const Row& row, const Token& token, __m512 sum) {
    const __m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(row.scale, token.scale));
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    unrolled<2>([&](auto j) TROIKA_INLINE {
      __m512i dots = _mm512_dpbusd_epi32(token.start[j], row.first[j], token.first[j]);
      dots = _mm512_dpbusd_epi32(dots, row.second[j], token.second[j]);
      const __m512i my_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(4 * j));
      sum = scaled(sum, dots, _mm512_permutexvar_ps(my_lanes, scale));
    });
    return sum;
  }
};

struct WideQ4_0 : EightBlocks {
  static constexpr size_t kBytes = FormatQ4_0::kBytes;

  static Token token(const Q8Row& x, size_t i, int /*part*/) { return token_with<8>(x, i); }
  static Row row(const std::byte* c, int /*part*/) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 80)};
    const __m512i a = four_blocks<2, 18, 0, 64>(bytes[0], bytes[1]);
    const __m512i b = four_blocks<74, 18, 64, 80>(bytes[1], bytes[2]);
    // The words 0, 9, ... of the first 64; every other pair of lanes is left unused.
    const __m512i words =
        _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 32 + 4, 32 + 13, 32 + 22, 32 + 31));
    const __m512i scales = _mm512_permutex2var_epi16(bytes[0], words, bytes[1]);
    return {{low_halves(a), low_halves(b)},
            {high_halves(a), high_halves(b)},
            _mm256_cvtph_ps(_mm512_castsi512_si128(scales))};
  }
};

struct WideQ5_0 : EightBlocks {
  static constexpr size_t kBytes = FormatQ5_0::kBytes;

  static Token token(const Q8Row& x, size_t i, int /*part*/) { return token_with<16>(x, i); }
  // The top bits of the first (or second) halves of four blocks, whose fields lie 22 bytes apart.
  TROIKA_INLINE static uint64_t top_bits(const std::byte* field) {
    const uint64_t low = load_word<uint16_t>(field) | load_word<uint16_t>(field + 22) << 16;
    const uint64_t high = load_word<uint16_t>(field + 44) | load_word<uint16_t>(field + 66) << 16;
    return (low & 0xffffffff) | high << 32;
  }
  TROIKA_INLINE static __m512i with_top(__m512i levels, const std::byte* field) {
    return _mm512_mask_add_epi8(levels, top_bits(field), levels, _mm512_set1_epi8(16));
  }
  static Row row(const std::byte* c, int /*part*/) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 112)};
    const __m512i a = four_blocks<6, 22, 0, 64>(bytes[0], bytes[1]);
    const __m512i b = four_blocks<94, 22, 64, 112>(bytes[1], bytes[2]);
    return {{with_top(low_halves(a), c + 2), with_top(low_halves(b), c + 90)},
            {with_top(high_halves(a), c + 4), with_top(high_halves(b), c + 92)},
            FormatQ5_0::scales(c)};
  }
};

struct WideQ8_0 : EightBlocks {
  static constexpr size_t kBytes = FormatQ8_0::kBytes;

  static Token token(const Q8Row& x, size_t i, int /*part*/) { return token_with<128>(x, i); }
  static Row row(const std::byte* c, int /*part*/) {
    Row row;
    const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80));
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const std::byte* block = c + 136 * j + 2;
      const __m512i low = join(load_32(block), load_32(block + 34));
      const __m512i high = join(load_32(block + 68), load_32(block + 102));
      row.first[j] = _mm512_xor_si512(quarters<0, 2, 0, 2>(low, high), top);
      row.second[j] = _mm512_xor_si512(quarters<1, 3, 1, 3>(low, high), top);
    });
    row.scale = FormatQ8_0::scales(c);
    return row;
  }
};

// The even groups of 32 share one vector, the odd ones another, four lanes for each: the packed
// bytes hold an even group in their low halves and the next odd one in their high halves.
struct WideQ4_K {
  static constexpr size_t kBytes = FormatQ4_K::kBytes, kBlock = 256;
  static constexpr int kParts = 1;

  struct Token {
    __m512i even[2], odd[2];  // first and second halves of the groups
    __m256 scale, sum;        // of the eight groups; the sums are scaled
  };
  struct Row {
    __m512i even[2], odd[2];
    __m256 scale, minimum;
  };

  static Token token(const Q8Row& x, size_t i, int /*part*/) {
    const __m512i a = load_64(x.q + i), b = load_64(x.q + i + 64);
    const __m512i c = load_64(x.q + i + 128), d = load_64(x.q + i + 192);
    const __m512i ab[2] = {quarters<0, 2, 0, 2>(a, b), quarters<1, 3, 1, 3>(a, b)};
    const __m512i cd[2] = {quarters<0, 2, 0, 2>(c, d), quarters<1, 3, 1, 3>(c, d)};
    const __m256 scale = _mm256_loadu_ps(x.scale + i / kQ8Block);
    const __m256i sums = _mm256_madd_epi16(
        load_32(reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock)), _mm256_set1_epi16(1));
    return {{quarters<0, 2, 0, 2>(ab[0], cd[0]), quarters<0, 2, 0, 2>(ab[1], cd[1])},
            {quarters<1, 3, 1, 3>(ab[0], cd[0]), quarters<1, 3, 1, 3>(ab[1], cd[1])},
            scale,
            _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale)};
  }
  static Row row(const std::byte* c, int /*part*/) {
    const __m512i low = load_64(c + 16), high = load_64(c + 80);
    const __m512i first = quarters<0, 2, 0, 2>(low, high), second = quarters<1, 3, 1, 3>(low, high);
    return {{low_halves(first), low_halves(second)},
            {high_halves(first), high_halves(second)},
            FormatQ4_K::scales(c),
            FormatQ4_K::minima(c)};
  }
  TROIKA_INLINE static __m512 add(const Row& row, const Token& token, __m512 sum) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i even = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, row.even[0], token.even[0]),
                                             row.even[1], token.even[1]);
    const __m512i odd = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, row.odd[0], token.odd[0]),
                                            row.odd[1], token.odd[1]);
    const __m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(row.scale, token.scale));
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m512i odd_lanes = _mm512_or_si512(lanes, _mm512_set1_epi32(1));
    sum = _mm512_fnmadd_ps(_mm512_zextps256_ps512(row.minimum), _mm512_zextps256_ps512(token.sum),
                           sum);
    sum = scaled(sum, even, _mm512_permutexvar_ps(lanes, scale));
    return scaled(sum, odd, _mm512_permutexvar_ps(odd_lanes, scale));
  }
};

// Groups of 16 take four lanes each. A part is one half of the block.
struct WideQ6_K {
  static constexpr size_t kBytes = FormatQ6_K::kBytes, kBlock = 256;
  static constexpr int kParts = 2;

  struct Token {
    __m512i levels[2], start[2];
    __m256 scale;  // of the eight groups
  };
  struct Row {
    __m512i levels[2];
    __m256 scale;
  };

  static Token token(const Q8Row& x, size_t i, int part) {
    i += 128 * static_cast<size_t>(part);
    // Eight sums of 16, each in the first lane of two; then of four.
    const __m512i sums = _mm512_cvtepu16_epi64(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(x.sum + i / kQ8SumBlock)));
    const __m512i offsets = _mm512_madd_epi16(sums, _mm512_set1_epi16(-32));
    const __m512i words = _mm512_setr_epi64(0, 0, 1, 0, 2, 0, 3, 0);
    const __m512i next_words = _mm512_add_epi64(words, _mm512_set1_epi64(4));
    const __m256 scales = _mm256_castps128_ps256(_mm_loadu_ps(x.scale + i / kQ8Block));
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return {{load_64(x.q + i), load_64(x.q + i + 64)},
            {_mm512_maskz_permutexvar_epi64(0x55, words, offsets),
             _mm512_maskz_permutexvar_epi64(0x55, next_words, offsets)},
            _mm256_permutevar8x32_ps(scales, twice)};
  }
  // Bit by bit: the low four from `low`, the next two from `high`.
  TROIKA_INLINE static __m512i merge(__m512i low, __m512i high) {
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, 0xca);
    return _mm512_and_si512(both, _mm512_set1_epi8(0x3f));
  }
  static Row row(const std::byte* c, int part) {
    const __m512i low = load_64(c + 64 * part);
    // The two bits of the first 32 levels are the lowest, those of the next 32 above them, ...
    const __m512i high = _mm512_broadcast_i64x4(load_32(c + 128 + 32 * part));
    const __m512i up = join(_mm256_set1_epi16(4), _mm256_set1_epi16(2));
    const __m512i down = join(_mm256_setzero_si256(), _mm256_set1_epi16(2));
    const __m256 d = _mm256_set1_ps(V::f16(c + 208));
    const __m128i multiples = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(c + 192 + 8 * part));
    return {{merge(low, _mm512_sllv_epi16(high, up)),
             merge(_mm512_srli_epi16(low, 4), _mm512_srlv_epi16(high, down))},
            _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(multiples)))};
  }
  TROIKA_INLINE static __m512 add(const Row& row, const Token& token, __m512 sum) {
    const __m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(row.scale, token.scale));
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const __m512i dots = _mm512_dpbusd_epi32(token.start[j], row.levels[j], token.levels[j]);
      const __m512i my_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(4 * j));
      sum = scaled(sum, dots, _mm512_permutexvar_ps(my_lanes, scale));
    });
    return sum;
  }
};
