// How each block format gives its levels to AVX2, 256 weights (a super-block) at a time: `c` points
// to a block of 256 weights or to eight of 32. Format<kType> has
//   kBytes          counts bytes of a super-block; kBlock: weights of a block in the file
//   kGroup          counts weights under one scale: 32 or 16
//   kOffset         was added to the levels to make them unsigned; kSigned: they are signed
//   levels(c, i)    returns the i-th 32 levels
//   scales(c)       returns float scales of the eight 32s; where kGroup is 16, one for all of them
//   multiples(c)    where kGroup is 16, returns the signed bytes that multiply this scale, one for
//                   each of the sixteen groups
// and if kHasMinima
//   minima(c)       returns what each weight of the eight 32s has too much; where kGroup is 16, one
//                   number for all of them
//   min_multiples(c)  where kGroup is 16, returns the bytes that multiply this number
// and kMayOverflow if a finite scale times a level can be infinite.
template <Type kType>
struct Format;

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

TROIKA_INLINE inline __m256 minus(__m256 v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }

// Returns the half-precision scales with which eight blocks of kStride bytes begin.
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

// Unpacks 16 bytes of two 4-bit levels each: the low halves, then the high halves.
TROIKA_INLINE inline __m256i nibbles(const std::byte* p) {
  const __m128i pairs = load_16(p);
  const __m256i wide = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
  return _mm256_and_si256(wide, _mm256_set1_epi8(15));
}

// Adds the fifth bits of 32 levels, which lie in a word.
TROIKA_INLINE inline __m256i with_fifth_bits(__m256i levels, const std::byte* word) {
  // Byte j of the spread bits is byte j / 8 of the word; its bit j % 8 is tested.
  const __m256i bits = _mm256_set1_epi32(load_word<int32_t>(word));
  const __m256i spread = _mm256_shuffle_epi8(
      bits, _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i present = _mm256_cmpeq_epi8(_mm256_and_si256(spread, wanted), wanted);
  return _mm256_or_si256(levels, _mm256_and_si256(present, _mm256_set1_epi8(16)));
}

// Turns eight bytes into eight floats.
TROIKA_INLINE inline __m256 floats_of_bytes(uint32_t low, uint32_t high) {
  const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}

// Looks up levels of a codebook.
TROIKA_INLINE inline __m256i look_up(const int8_t* codebook, __m256i codes) {
  const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), codes);
}

struct UnsignedLevels {
  static constexpr size_t kGroup = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kSigned = false, kHasMinima = false, kMayOverflow = false;
};

// Blocks of 32 that begin with a scale.
template <int kBlockBytes>
struct BlocksOf32 : UnsignedLevels {
  static constexpr size_t kBytes = 8 * kBlockBytes, kBlock = 32;
  static __m256 scales(const std::byte* c) { return eight_scales<kBlockBytes>(c); }
};

template <>
struct Format<Type::kQ4_0> : BlocksOf32<18> {
  static constexpr int kOffset = 8;
  static __m256i levels(const std::byte* c, int i) { return nibbles(c + 18 * i + 2); }
};

template <>
struct Format<Type::kQ4_1> : BlocksOf32<20> {
  static constexpr bool kHasMinima = true;
  static __m256 minima(const std::byte* c) { return minus(eight_scales<20>(c + 2)); }
  static __m256i levels(const std::byte* c, int i) { return nibbles(c + 20 * i + 4); }
};

template <>
struct Format<Type::kQ5_0> : BlocksOf32<22> {
  static constexpr int kOffset = 16;
  static __m256i levels(const std::byte* c, int i) {
    return with_fifth_bits(nibbles(c + 22 * i + 6), c + 22 * i + 2);
  }
};

template <>
struct Format<Type::kQ5_1> : BlocksOf32<24> {
  static constexpr bool kHasMinima = true;
  static __m256 minima(const std::byte* c) { return minus(eight_scales<24>(c + 2)); }
  static __m256i levels(const std::byte* c, int i) {
    return with_fifth_bits(nibbles(c + 24 * i + 8), c + 24 * i + 4);
  }
};

template <>
struct Format<Type::kQ8_0> : BlocksOf32<34> {
  static constexpr bool kSigned = true;
  static __m256i levels(const std::byte* c, int i) { return load_32(c + 34 * i + 2); }
};

template <>
struct Format<Type::kIQ4_NL> : BlocksOf32<18> {
  static constexpr bool kSigned = true;
  static __m256i levels(const std::byte* c, int i) {
    return look_up(tensor::kUnevenLevels, nibbles(c + 18 * i + 2));
  }
};

// Returns halves of powers of two, from their exponents; the two least are subnormal
// (tensor/mxfp4.h).
TROIKA_INLINE inline __m256 floats_of_exponents(__m256i exponents) {
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)), 23);
  const __m256i least = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), exponents);
  const __m256i is_least = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), exponents);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, least, is_least));
}

template <>
struct Format<Type::kMXFP4> : BlocksOf32<17> {
  static constexpr bool kSigned = true, kMayOverflow = true;
  static __m256 scales(const std::byte* c) {
    uint64_t bytes = 0;
    unrolled<8>([&](auto i) TROIKA_INLINE {
      bytes |= static_cast<uint64_t>(load_word<uint8_t>(c + 17 * i)) << (8 * i);
    });
    return floats_of_exponents(
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
  }
  static __m256i levels(const std::byte* c, int i) {
    return look_up(tensor::kTinyFloats, nibbles(c + 17 * i + 1));
  }
};

// Moves bits up. Bits cross into the neighbouring byte, so callers mask out all bits but those that
// stayed.
TROIKA_INLINE inline __m256i moved_up(__m256i bytes, int n_bits) {
  return n_bits >= 0 ? _mm256_slli_epi16(bytes, n_bits) : _mm256_srli_epi16(bytes, -n_bits);
}
// Returns bit i of each byte, at bit kTo.
template <int kTo>
TROIKA_INLINE inline __m256i one_bit(__m256i bytes, int i) {
  return _mm256_and_si256(moved_up(bytes, kTo - i), _mm256_set1_epi8(1 << kTo));
}

// d and dmin in front, then multiples of 6 bits, packed as tensor/q4_k.h says; here four groups at
// a time.
struct AffineMultiples : UnsignedLevels {
  static constexpr size_t kBlock = 256;
  static constexpr bool kHasMinima = true;

  static __m256 scales(const std::byte* c) {
    const auto a = load_word<uint32_t>(c + 4), b = load_word<uint32_t>(c + 12);
    const __m256 multiples =
        floats_of_bytes(a & 0x3f3f3f3f, (b & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    return _mm256_mul_ps(_mm256_set1_ps(V::f16(c)), multiples);
  }
  static __m256 minima(const std::byte* c) {
    const auto a = load_word<uint32_t>(c + 8), b = load_word<uint32_t>(c + 12);
    const __m256 multiples =
        floats_of_bytes(a & 0x3f3f3f3f, (b >> 4 & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    return _mm256_mul_ps(_mm256_set1_ps(V::f16(c + 2)), multiples);
  }
  // Unpacks 4-bit levels: even groups lie in the low halves of 32 bytes, odd ones in the high
  // halves.
  static __m256i paired_levels(const std::byte* first, int i) {
    __m256i pairs = load_32(first + i / 2 * 32);
    if (i % 2 == 1) pairs = _mm256_srli_epi16(pairs, 4);
    return _mm256_and_si256(pairs, _mm256_set1_epi8(15));
  }
};

template <>
struct Format<Type::kQ4_K> : AffineMultiples {
  static constexpr size_t kBytes = 144;
  static __m256i levels(const std::byte* c, int i) { return paired_levels(c + 16, i); }
};

template <>
struct Format<Type::kQ5_K> : AffineMultiples {
  static constexpr size_t kBytes = 176;
  static __m256i levels(const std::byte* c, int i) {
    return _mm256_or_si256(paired_levels(c + 48, i), one_bit<4>(load_32(c + 16), i));
  }
};

template <>
struct Format<Type::kIQ4_XS> : UnsignedLevels {
  static constexpr size_t kBytes = 136, kBlock = 256;
  static constexpr bool kSigned = true;

  // The four low bits of multiples lie in four bytes, two top bits in a word.
  static __m256 scales(const std::byte* c) {
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(load_word<int32_t>(c + 4)), shifts);
    const __m256i top = _mm256_srlv_epi32(_mm256_set1_epi32(load_word<uint16_t>(c + 2)),
                                          _mm256_srli_epi32(shifts, 1));
    const __m256i multiples =
        _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                        _mm256_slli_epi32(_mm256_and_si256(top, _mm256_set1_epi32(3)), 4));
    const __m256 centred = _mm256_cvtepi32_ps(_mm256_sub_epi32(multiples, _mm256_set1_epi32(32)));
    return _mm256_mul_ps(_mm256_set1_ps(V::f16(c)), centred);
  }
  static __m256i levels(const std::byte* c, int i) {
    return look_up(tensor::kUnevenLevels, nibbles(c + 8 + 16 * i));
  }
};

// Groups of 16 with whole-number multiples of d.
template <int kScaleAt>
struct GroupsOf16 : UnsignedLevels {
  static constexpr size_t kBlock = 256, kGroup = 16;
  static __m256 scales(const std::byte* c) { return _mm256_set1_ps(V::f16(c + kScaleAt)); }
  // Returns two bits of the i-th 32 levels, packed as tensor/two_bits.h says, at bit kTo of each
  // byte.
  template <int kTo>
  static __m256i two_bits(const std::byte* bytes, int i) {
    const __m256i moved = moved_up(load_32(bytes + i / 4 * 32), kTo - i % 4 * 2);
    return _mm256_and_si256(moved, _mm256_set1_epi8(3 << kTo));
  }
};

template <>
struct Format<Type::kQ2_K> : GroupsOf16<80> {
  static constexpr size_t kBytes = 84;
  static constexpr bool kHasMinima = true;

  static __m256 minima(const std::byte* c) { return _mm256_set1_ps(V::f16(c + 82)); }
  static __m128i multiples(const std::byte* c) {
    return _mm_and_si128(load_16(c), _mm_set1_epi8(15));
  }
  static __m128i min_multiples(const std::byte* c) {
    return _mm_and_si128(_mm_srli_epi16(load_16(c), 4), _mm_set1_epi8(15));
  }
  static __m256i levels(const std::byte* c, int i) { return two_bits<0>(c + 16, i); }
};

template <>
struct Format<Type::kQ3_K> : GroupsOf16<108> {
  static constexpr size_t kBytes = 110;
  static constexpr int kOffset = 4;

  // The packing is described in tensor/q3_k.h; here four groups at a time.
  static __m128i multiples(const std::byte* c) {
    const auto a = load_word<int32_t>(c + 96), b = load_word<int32_t>(c + 100);
    const __m128i low = _mm_srlv_epi32(_mm_setr_epi32(a, b, a, b), _mm_setr_epi32(0, 0, 4, 4));
    const __m128i top = _mm_set1_epi32(load_word<int32_t>(c + 104));
    const __m128i moved = _mm_srlv_epi32(top, _mm_setr_epi32(0, 2, 4, 6));
    const __m128i both = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)),
                                      _mm_slli_epi16(_mm_and_si128(moved, _mm_set1_epi8(3)), 4));
    return _mm_sub_epi8(both, _mm_set1_epi8(32));
  }
  static __m256i levels(const std::byte* c, int i) {
    return _mm256_or_si256(two_bits<0>(c + 32, i), one_bit<2>(load_32(c), i));
  }
};

template <>
struct Format<Type::kQ6_K> : GroupsOf16<208> {
  static constexpr size_t kBytes = 210;
  static constexpr int kOffset = 32;

  static __m128i multiples(const std::byte* c) { return load_16(c + 192); }
  static __m256i levels(const std::byte* c, int i) {
    __m256i low = load_32(c + i / 4 * 64 + i % 2 * 32);
    if (i % 4 >= 2) low = _mm256_srli_epi16(low, 4);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), two_bits<4>(c + 128, i));
  }
};
