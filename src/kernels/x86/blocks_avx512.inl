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
// side, then their second halves, so that both add up in the same lanes, four for each block.
template <Type kType>
struct EightBlocks {
  using Levels = Ordered<kType>;
  using Floats = __m256;
  static constexpr size_t kBytes = Levels::kBytes, kBlock = Levels::kBlock, kGroup = 32;
  static constexpr bool kHasMinima = Levels::kHasMinima;
  static constexpr int lane_of(int group) { return group; }

  struct Token {
    __m512i first[2], second[2];  // halves of four blocks
    __m256i start;
    __m256 scale, sum;  // of the eight blocks; the sums are scaled, and used only with minima
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
  // Of two times four blocks: 4-bit levels, scales and minima.
  TROIKA_INLINE static Row row_of(__m512i a, __m512i b, __m256 scale, __m256 minimum) {
    return {{low_halves(a), low_halves(b)}, {high_halves(a), high_halves(b)}, scale, minimum};
  }
  TROIKA_INLINE static Row row_of(__m512i a, __m512i b, __m256 scale) {
    return row_of(a, b, scale, _mm256_setzero_ps());
  }
};

// 16 bytes from each of four blocks, in two steps of loading and inserting.
template <int kStride>
TROIKA_INLINE inline __m512i four_pieces(const std::byte* c) {
  const __m256i low =
      _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(c)), load_16(c + kStride), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(c + 2 * kStride)),
                                               load_16(c + 3 * kStride), 1);
  return join(low, high);
}

// A scale and a least weight side by side in each of eight blocks: as scales and as minima.
struct ScalesAndMinima {
  __m256 scales, minima;
};
template <int kStride>
TROIKA_INLINE inline ScalesAndMinima scales_and_minima(const std::byte* c) {
  __m128i halves[2];
  unrolled<2>([&](auto j) TROIKA_INLINE {
    const std::byte* block = c + 4 * j * kStride;
    __m128i pairs = _mm_cvtsi32_si128(load_word<int32_t>(block));
    pairs = _mm_insert_epi32(pairs, load_word<int32_t>(block + kStride), 1);
    pairs = _mm_insert_epi32(pairs, load_word<int32_t>(block + 2 * kStride), 2);
    halves[j] = _mm_insert_epi32(pairs, load_word<int32_t>(block + 3 * kStride), 3);
  });
  const __m256i pairs = _mm256_set_m128i(halves[1], halves[0]);
  return {_mm256_cvtph_ps(_mm256_cvtepi32_epi16(pairs)),
          minus(_mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(pairs, 16))))};
}

// The fifth bits of the first (or second) halves of four blocks, whose fields lie kStride apart.
template <int kStride>
TROIKA_INLINE inline uint64_t four_fields(const std::byte* field) {
  const uint64_t low = load_word<uint16_t>(field) | load_word<uint16_t>(field + kStride) << 16;
  const uint64_t high =
      load_word<uint16_t>(field + 2 * kStride) | load_word<uint16_t>(field + 3 * kStride) << 16;
  return (low & 0xffffffff) | high << 32;
}
template <int kStride>
TROIKA_INLINE inline __m512i with_fifths(__m512i levels, const std::byte* field) {
  return _mm512_mask_add_epi8(levels, four_fields<kStride>(field), levels, _mm512_set1_epi8(16));
}
// The same for all levels of a row.
template <int kStride, typename Row>
TROIKA_INLINE inline Row with_all_fifths(Row row, const std::byte* field) {
  unrolled<2>([&](auto j) TROIKA_INLINE {
    row.first[j] = with_fifths<kStride>(row.first[j], field + 4 * j * kStride);
    row.second[j] = with_fifths<kStride>(row.second[j], field + 4 * j * kStride + 2);
  });
  return row;
}

// Codes become levels of a codebook, with 128 added.
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

// Blocks of 18 bytes: a scale, then 4-bit levels or codes. With three loads for all eight.
template <Type kType>
struct EightBlocksOf18 : EightBlocks<kType> {
  using typename EightBlocks<kType>::Row;
  TROIKA_INLINE static Row row_of_codes(const std::byte* c) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 80)};
    // The words 0, 9, ... of the first 64; every other pair of lanes is left unused.
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

template <>
struct Wide<Type::kQ4_1> : EightBlocks<Type::kQ4_1> {
  static Row row(const std::byte* c) {
    const auto [scales, minima] = scales_and_minima<20>(c);
    return row_of(four_pieces<20>(c + 4), four_pieces<20>(c + 84), scales, minima);
  }
};

template <>
struct Wide<Type::kQ5_0> : EightBlocks<Type::kQ5_0> {
  static Row row(const std::byte* c) {
    const __m512i bytes[3] = {load_64(c), load_64(c + 64), load_64(c + 112)};
    const Row low =
        row_of(four_blocks<6, 22, 0, 64>(bytes[0], bytes[1]),
               four_blocks<94, 22, 64, 112>(bytes[1], bytes[2]), Format<Type::kQ5_0>::scales(c));
    return with_all_fifths<22>(low, c + 2);
  }
};

template <>
struct Wide<Type::kQ5_1> : EightBlocks<Type::kQ5_1> {
  static Row row(const std::byte* c) {
    const auto [scales, minima] = scales_and_minima<24>(c);
    return with_all_fifths<24>(
        row_of(four_pieces<24>(c + 8), four_pieces<24>(c + 104), scales, minima), c + 4);
  }
};

template <>
struct Wide<Type::kMXFP4> : EightBlocks<Type::kMXFP4> {
  static Row row(const std::byte* c) {
    return looked_up(
        row_of(four_pieces<17>(c + 1), four_pieces<17>(c + 69), Format<Type::kMXFP4>::scales(c)),
        tensor::kTinyFloats);
  }
};

// Not eight blocks, but eight groups of one whose codes lie side by side.
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
