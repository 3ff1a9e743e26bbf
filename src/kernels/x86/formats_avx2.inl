// How each block format gives its levels to AVX2, 256 weights (a super-block) at a time: `c` points
// to a block of 256 weights or to eight of 32. Each format has
//   kBytes          of a super-block, kBlock: weights of a block in the file
//   kOffset         what was added to the levels to make them unsigned; kSigned if they are not
//   levels(c, i)    the i-th 32 levels
//   scales(c)       float scales of the eight 32s
//   multiplier(c,i) whole-number scales of the i-th 32 levels, as pairs of levels see them (Q6_K)
//   minima(c)       what each weight of the eight 32s has too much (Q4_K)

TROIKA_INLINE inline __m128i load_16(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
TROIKA_INLINE inline __m256i load_32(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
template <typename Word>
TROIKA_INLINE inline Word load_word(const std::byte* p) {
  Word word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

// The half-precision scales that begin eight blocks of kStride bytes.
template <int kStride>
TROIKA_INLINE inline __m256 eight_scales(const std::byte* c) {
  __m128i low = _mm_loadu_si16(c);
  __m128i high = _mm_loadu_si16(c + 4 * kStride);
  low = _mm_insert_epi16(low, load_word<int16_t>(c + kStride), 1);
  high = _mm_insert_epi16(high, load_word<int16_t>(c + 5 * kStride), 1);
  low = _mm_insert_epi16(low, load_word<int16_t>(c + 2 * kStride), 2);
  high = _mm_insert_epi16(high, load_word<int16_t>(c + 6 * kStride), 2);
  low = _mm_insert_epi16(low, load_word<int16_t>(c + 3 * kStride), 3);
  high = _mm_insert_epi16(high, load_word<int16_t>(c + 7 * kStride), 3);
  return _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high));
}

// 16 bytes of two 4-bit levels each: the low halves, then the high halves.
TROIKA_INLINE inline __m256i nibbles(const std::byte* p) {
  const __m128i pairs = load_16(p);
  const __m256i wide = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
  return _mm256_and_si256(wide, _mm256_set1_epi8(15));
}

struct FormatQ4_0 {
  static constexpr size_t kBytes = 8 * 18, kBlock = 32;
  static constexpr int kOffset = 8;
  static constexpr bool kSigned = false, kHasMultiplier = false, kHasMinima = false;

  static __m256 scales(const std::byte* c) { return eight_scales<18>(c); }
  static __m256i levels(const std::byte* c, int i) { return nibbles(c + 18 * i + 2); }
};

struct FormatQ5_0 {
  static constexpr size_t kBytes = 8 * 22, kBlock = 32;
  static constexpr int kOffset = 16;
  static constexpr bool kSigned = false, kHasMultiplier = false, kHasMinima = false;

  static __m256 scales(const std::byte* c) { return eight_scales<22>(c); }
  static __m256i levels(const std::byte* c, int i) {
    const std::byte* block = c + 22 * i;
    // Byte j of the spread bits is byte j / 8 of the field; its bit j % 8 is tested.
    const __m256i bits = _mm256_set1_epi32(load_word<int32_t>(block + 2));
    const __m256i spread = _mm256_shuffle_epi8(
        bits, _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    const __m256i present = _mm256_cmpeq_epi8(_mm256_and_si256(spread, wanted), wanted);
    return _mm256_or_si256(nibbles(block + 6), _mm256_and_si256(present, _mm256_set1_epi8(16)));
  }
};

struct FormatQ8_0 {
  static constexpr size_t kBytes = 8 * 34, kBlock = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kSigned = true, kHasMultiplier = false, kHasMinima = false;

  static __m256 scales(const std::byte* c) { return eight_scales<34>(c); }
  static __m256i levels(const std::byte* c, int i) { return load_32(c + 34 * i + 2); }
};

struct FormatQ4_K {
  static constexpr size_t kBytes = 144, kBlock = 256;
  static constexpr int kOffset = 0;
  static constexpr bool kSigned = false, kHasMultiplier = false, kHasMinima = true;

  // Eight bytes to eight floats.
  static __m256 floats(uint32_t low, uint32_t high) {
    const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
  }
  // The packing is described in tensor/q4_k.h; here four groups at a time.
  static __m256 scales(const std::byte* c) {
    const auto a = load_word<uint32_t>(c + 4), b = load_word<uint32_t>(c + 12);
    const __m256 multiples = floats(a & 0x3f3f3f3f, (b & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    return _mm256_mul_ps(_mm256_set1_ps(V::f16(c)), multiples);
  }
  static __m256 minima(const std::byte* c) {
    const auto a = load_word<uint32_t>(c + 8), b = load_word<uint32_t>(c + 12);
    const __m256 multiples = floats(a & 0x3f3f3f3f, (b >> 4 & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    return _mm256_mul_ps(_mm256_set1_ps(V::f16(c + 2)), multiples);
  }
  static __m256i levels(const std::byte* c, int i) {
    __m256i pairs = load_32(c + 16 + i / 2 * 32);
    if (i % 2 == 1) pairs = _mm256_srli_epi16(pairs, 4);
    return _mm256_and_si256(pairs, _mm256_set1_epi8(15));
  }
};

struct FormatQ6_K {
  static constexpr size_t kBytes = 210, kBlock = 256;
  static constexpr int kOffset = 32;
  static constexpr bool kSigned = false, kHasMultiplier = true, kHasMinima = false;

  static __m256 scales(const std::byte* c) { return _mm256_set1_ps(V::f16(c + 208)); }
  // Two groups of 16 levels: eight 16-bit multiples for each.
  static __m256i multiplier(const std::byte* c, int i) {
    const __m128i pair = _mm_loadu_si16(c + 192 + 2 * i);
    const __m256i both = _mm256_broadcastsi128_si256(_mm_cvtepi8_epi16(pair));
    return _mm256_shuffle_epi8(both, _mm256_setr_epi64x(0x0100010001000100, 0x0100010001000100,
                                                        0x0302030203020302, 0x0302030203020302));
  }
  static __m256i levels(const std::byte* c, int i) {
    const int half = i / 4, quarter = i % 4;
    __m256i low = load_32(c + half * 64 + quarter % 2 * 32);
    if (quarter >= 2) low = _mm256_srli_epi16(low, 4);
    const __m256i packed = load_32(c + 128 + half * 32);
    const __m256i high = quarter == 0   ? _mm256_slli_epi16(packed, 4)
                         : quarter == 1 ? _mm256_slli_epi16(packed, 2)
                         : quarter == 2 ? packed
                                        : _mm256_srli_epi16(packed, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                           _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
  }
};
