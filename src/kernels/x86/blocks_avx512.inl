// How AVX-512 multiplies rows of blocks of 32 weights. After formats_avx512.inl.

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
// side, then their second halves, so that both add up in the same elements, four for each block.
template <Type kType>
struct EightBlocks {
  using Levels = Ordered<kType>;
  using Floats = __m256;
  static constexpr size_t kBytes = Levels::kBytes, kBlock = Levels::kBlock, kGroup = 32;
  static constexpr bool kHasMinima = Levels::kHasMinima;
  static constexpr int element_of(int group) { return group; }

  struct Token {
    __m512i first[2], second[2];  // halves of four blocks each
    __m256i start;
    __m256 scale, sum;  // for the eight blocks; the sums are scaled, and used only with minima
  };
  struct Row {
    __m512i first[2], second[2];
    __m256 scale, minimum;
  };

  TROIKA_INLINE static Token token(const Q8Row& x, size_t i) {
    Token token;
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const __m512i low = load_64(x.q + i + 128 * j), high = load_64(x.q + i + 128 * j + 64);
      token.first[j] = quarters<0, 2, 0, 2>(low, high);
      token.second[j] = quarters<1, 3, 1, 3>(low, high);
    });
    const __m256i sums = load_32(reinterpret_cast<const std::byte*>(x.sum + i / kQ8SumBlock));
    token.start = _mm256_madd_epi16(sums, _mm256_set1_epi16(-Levels::kOffset));
    token.scale = _mm256_loadu_ps(x.scale + i / kQ8Block);
    if constexpr (kHasMinima) token.sum = scaled_sums(x, i, token.scale);
    return token;
  }
  TROIKA_INLINE static void add(const Row& row, const Token& token, Floats& sums) {
    if constexpr (kHasMinima) sums = _mm256_fnmadd_ps(row.minimum, token.sum, sums);
    __m512i fours[2];
    unrolled<2>([&](auto j) TROIKA_INLINE {
      fours[j] =
          _mm512_dpbusd_epi32(dots(row.first[j], token.first[j]), row.second[j], token.second[j]);
    });
    const __m256i whole = _mm256_add_epi32(token.start, sums_of_fours(fours[0], fours[1]));
    sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(row.scale, token.scale), sums);
  }
  TROIKA_INLINE static __m256 scales(const std::byte* c) { return Levels::scales(c); }
  TROIKA_INLINE static __m256 minima(const std::byte* c) { return Levels::minima(c); }

 protected:
  // Makes a row of two times four blocks: 4-bit levels, scales and minima.
  TROIKA_INLINE static Row row_of(__m512i a, __m512i b, __m256 scale, __m256 minimum) {
    return {{low_halves(a), low_halves(b)}, {high_halves(a), high_halves(b)}, scale, minimum};
  }
  TROIKA_INLINE static Row row_of(__m512i a, __m512i b, __m256 scale) {
    return row_of(a, b, scale, _mm256_setzero_ps());
  }
};

// Reads a scale and a least weight side by side in each of eight blocks, and returns scales and
// minima.
struct ScalesAndMinima {
  __m256 scales, minima;
};
TROIKA_INLINE inline ScalesAndMinima scales_and_minima(__m256i pairs) {
  return {_mm256_cvtph_ps(_mm256_cvtepi32_epi16(pairs)),
          minus(_mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(pairs, 16))))};
}

// Adds 16 where a bit is set: quarter i of `fields` begins with the 32 bits of block i, of which
// the first half belongs to the first half of the levels.
template <int kHalf>
TROIKA_INLINE inline __m512i with_fifths(__m512i levels, __m512i fields) {
  constexpr char kA = 2 * kHalf, kB = 2 * kHalf + 1;
  const __m128i bytes =
      _mm_setr_epi8(kA, kA, kA, kA, kA, kA, kA, kA, kB, kB, kB, kB, kB, kB, kB, kB);
  const __m512i spread = _mm512_shuffle_epi8(fields, _mm512_broadcast_i32x4(bytes));
  const __m512i bits = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201));
  return _mm512_mask_add_epi8(levels, _mm512_test_epi8_mask(spread, bits), levels,
                              _mm512_set1_epi8(16));
}
// Adds fifth bits to all levels of a row; `a` and `b` have the fields of four blocks each.
template <typename Row>
TROIKA_INLINE inline Row with_all_fifths(Row row, __m512i a, __m512i b) {
  row.first[0] = with_fifths<0>(row.first[0], a);
  row.second[0] = with_fifths<1>(row.second[0], a);
  row.first[1] = with_fifths<0>(row.first[1], b);
  row.second[1] = with_fifths<1>(row.second[1], b);
  return row;
}

// Turns codes into levels of a codebook, with 128 added.
template <typename Row>
TROIKA_INLINE inline Row looked_up(Row row, const int8_t* codebook) {
  const __m128i signed_levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook));
  const __m512i levels =
      _mm512_broadcast_i32x4(_mm_xor_si128(signed_levels, _mm_set1_epi8(static_cast<char>(0x80))));
  unrolled<2>([&](auto j) TROIKA_INLINE {
    row.first[j] = _mm512_shuffle_epi8(levels, row.first[j]);
    row.second[j] = _mm512_shuffle_epi8(levels, row.second[j]);
  });
  return row;
}

// Reads blocks of 18 bytes, a scale and then 4-bit levels or codes, with three loads for all eight.
template <Type kType>
struct EightBlocksOf18 : EightBlocks<kType> {
  using typename EightBlocks<kType>::Row;
  TROIKA_INLINE static Row row_of_codes(const std::byte* c) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 80)};
    // The scale of block i is word 9 i. A permutation reads words 0 to 31 from the first 64 bytes
    // and words 32 to 63, here numbered from 32 on, from the next 64.
    const __m512i words =
        _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 32 + 4, 32 + 13, 32 + 22, 32 + 31));
    const __m512i scales = _mm512_permutex2var_epi16(bytes[0], words, bytes[1]);
    return EightBlocks<kType>::row_of(four_blocks<2, 18, 0, 64>(bytes[0], bytes[1]),
                                      four_blocks<74, 18, 64, 80>(bytes[1], bytes[2]),
                                      _mm256_cvtph_ps(_mm512_castsi512_si128(scales)));
  }
};

template <>
struct Wide<Type::kQ4_0> : EightBlocksOf18<Type::kQ4_0> {
  static Row row(const std::byte* c) { return row_of_codes(c); }
};

template <>
struct Wide<Type::kIQ4_NL> : EightBlocksOf18<Type::kIQ4_NL> {
  static Row row(const std::byte* c) { return looked_up(row_of_codes(c), tensor::kUnevenLevels); }
};

// 32-bit words of eight blocks of kWords words each, picked out of three loads.
template <int kWords>
struct EightBlocksOfWords {
  // The three loads begin here; the last one ends with the blocks.
  static constexpr int kStarts[3] = {0, 16, 8 * kWords - 16};
  __m512i loaded[3];

  TROIKA_INLINE explicit EightBlocksOfWords(const std::byte* c)
      : loaded{load_64(c), load_64(c + 4 * kStarts[1]), load_64(c + 4 * kStarts[2])} {}

  struct Index {
    alignas(64) int32_t elements[16];
  };
  // A word comes from the first of two loads or, for the last four blocks, from the second.
  static constexpr Index four_index(int block, int first) {
    Index index{};
    const int load = block == 0 ? 0 : 1;
    for (int i = 0; i < 16; ++i) {
      const int word = (block + i / 4) * kWords + first + i % 4;
      const int at = word - kStarts[load];
      index.elements[i] = at < 16 ? at : word - kStarts[load + 1] + 16;
    }
    return index;
  }
  static constexpr Index eight_index(bool last) {
    Index index{};
    for (int i = 0; i < 8; ++i) {
      index.elements[i] = i * kWords - (last ? kStarts[2] : 0);
    }
    return index;
  }
  // Returns the words kFirst to kFirst + 3 of the four blocks from kBlock (0 or 4) on, block after
  // block.
  template <int kBlock, int kFirst>
  TROIKA_INLINE __m512i four() const {
    static constexpr Index kIndex = four_index(kBlock, kFirst);
    constexpr int kLoad = kBlock == 0 ? 0 : 1;
    return _mm512_permutex2var_epi32(loaded[kLoad], load_64(kIndex.elements), loaded[kLoad + 1]);
  }
  // Returns the first word of each of the eight blocks.
  TROIKA_INLINE __m256i firsts() const {
    static constexpr Index kEarly = eight_index(false), kLate = eight_index(true);
    // Counts blocks that begin in the first two loads.
    constexpr int kInEarly = (31 + kWords) / kWords;
    const __m512i early = _mm512_permutex2var_epi32(loaded[0], load_64(kEarly.elements), loaded[1]);
    constexpr __mmask16 kRest = 0xff & ~((1 << kInEarly) - 1);
    return _mm512_castsi512_si256(
        _mm512_mask_permutexvar_epi32(early, kRest, load_64(kLate.elements), loaded[2]));
  }
};

template <>
struct Wide<Type::kQ4_1> : EightBlocks<Type::kQ4_1> {
  static Row row(const std::byte* c) {
    const EightBlocksOfWords<5> blocks(c);
    const auto [scales, minima] = scales_and_minima(blocks.firsts());
    return row_of(blocks.four<0, 1>(), blocks.four<4, 1>(), scales, minima);
  }
};

template <>
struct Wide<Type::kQ5_0> : EightBlocks<Type::kQ5_0> {
  static Row row(const std::byte* c) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 112)};
    const Row low =
        row_of(four_blocks<6, 22, 0, 64>(bytes[0], bytes[1]),
               four_blocks<94, 22, 64, 112>(bytes[1], bytes[2]), _mm256_cvtph_ps(scales_of(bytes)));
    return with_all_fifths(low, four_blocks<2, 22, 0, 64>(bytes[0], bytes[1]),
                           four_blocks<90, 22, 64, 112>(bytes[1], bytes[2]));
  }

 private:
  // Returns the words 0, 11, ... of the blocks.
  TROIKA_INLINE static __m128i scales_of(const __m512i (&bytes)[3]) {
    const __m512i early =
        _mm512_castsi128_si512(_mm_setr_epi16(0, 11, 22, 32 + 1, 32 + 12, 32 + 23, 0, 0));
    const __m512i late = _mm512_castsi128_si512(_mm_setr_epi16(0, 0, 0, 0, 0, 0, 10, 21));
    return _mm512_castsi512_si128(_mm512_mask_permutexvar_epi16(
        _mm512_permutex2var_epi16(bytes[0], early, bytes[1]), 0xc0, late, bytes[2]));
  }
};

template <>
struct Wide<Type::kQ5_1> : EightBlocks<Type::kQ5_1> {
  static Row row(const std::byte* c) {
    const EightBlocksOfWords<6> blocks(c);
    const auto [scales, minima] = scales_and_minima(blocks.firsts());
    return with_all_fifths(row_of(blocks.four<0, 2>(), blocks.four<4, 2>(), scales, minima),
                           blocks.four<0, 1>(), blocks.four<4, 1>());
  }
};

// Loads 16 bytes from each of four blocks, in two steps of loading and inserting.
template <int kStride>
TROIKA_INLINE inline __m512i four_pieces(const std::byte* c) {
  const __m256i low =
      _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(c)), load_16(c + kStride), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(c + 2 * kStride)),
                                               load_16(c + 3 * kStride), 1);
  return join(low, high);
}

template <>
struct Wide<Type::kMXFP4> : EightBlocks<Type::kMXFP4> {
  static Row row(const std::byte* c) {
    return looked_up(
        row_of(four_pieces<17>(c + 1), four_pieces<17>(c + 69), Format<Type::kMXFP4>::scales(c)),
        tensor::kTinyFloats);
  }
};

// Here eight groups of one block, whose codes lie side by side, take the place of eight blocks.
template <>
struct Wide<Type::kIQ4_XS> : EightBlocks<Type::kIQ4_XS> {
  static Row row(const std::byte* c) {
    return looked_up(row_of(load_64(c + 8), load_64(c + 72), Format<Type::kIQ4_XS>::scales(c)),
                     tensor::kUnevenLevels);
  }
};

template <>
struct Wide<Type::kQ8_0> : EightBlocks<Type::kQ8_0> {
  static Row row(const std::byte* c) {
    Row row;
    const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80));
    unrolled<2>([&](auto j) TROIKA_INLINE {
      const std::byte* block = c + 136 * j + 2;
      const __m512i low = join(load_32(block), load_32(block + 34));
      const __m512i high = join(load_32(block + 68), load_32(block + 102));
      row.first[j] = _mm512_xor_si512(quarters<0, 2, 0, 2>(low, high), top);
      row.second[j] = _mm512_xor_si512(quarters<1, 3, 1, 3>(low, high), top);
    });
    row.scale = Format<Type::kQ8_0>::scales(c);
    return row;
  }
};
