// How each block format gives AVX-512 the levels of a strip (tensor/strips.h), with a lane for each
// row and four levels of its k side by side. Strip<kType> has
//   kVectors       of levels in a group: 8 for groups of 32, 4 for groups of 16
//   scales(c, n_blocks, out)   of the groups of a super-block
//   minima(c, n_blocks, out)   likewise, where there are minima
//   visit(c, n_blocks, body)   calls body(group, levels) for each group, in their order
// where c is the strip at a super-block, and n_blocks counts the blocks of 32 that it has still.
// Levels and scales are those of Ordered<kType>, to the bit.

TROIKA_INLINE inline __m512i line_at(const std::byte* p) { return _mm512_loadu_si512(p); }
TROIKA_INLINE inline __m512 sixteen_halves(const std::byte* c) {
  return _mm512_cvtph_ps(load_32(c));
}
TROIKA_INLINE inline __m512i low_nibbles(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}
TROIKA_INLINE inline __m512i high_nibbles(__m512i bytes) {
  return low_nibbles(_mm512_srli_epi16(bytes, 4));
}
// Byte kByte of each lane.
template <int kByte>
TROIKA_INLINE inline __m512i byte_of(__m512i words) {
  return _mm512_and_si512(_mm512_srli_epi32(words, 8 * kByte), _mm512_set1_epi32(255));
}
// Levels of a codebook, with 128 added.
TROIKA_INLINE inline __m512i coded(const int8_t* codebook, __m512i codes) {
  const __m512i levels =
      _mm512_broadcast_i32x4(load_16(reinterpret_cast<const std::byte*>(codebook)));
  return _mm512_xor_si512(_mm512_shuffle_epi8(levels, codes),
                          _mm512_set1_epi8(static_cast<char>(0x80)));
}

template <Type kType>
struct Strip;

// Blocks of 32 whose first words are the scale, or scale and least weight. The eight vectors of a
// block's levels are its group.
template <Type kType>
struct StripOfBlocks {
  using Levels = Ordered<kType>;
  static constexpr int kVectors = 8;
  static constexpr size_t kBytes = kPanelRows * Levels::kBytes / 8;  // of 16 blocks

  static void scales(const std::byte* c, size_t n_blocks, __m512* out) {
    for (size_t b = 0; b < n_blocks; ++b, c += kBytes) {
      if constexpr (Levels::kHasMinima) {  // both in one word
        out[b] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(line_at(c)));
      } else {
        out[b] = sixteen_halves(c);
      }
    }
  }
  static void minima(const std::byte* c, size_t n_blocks, __m512* out) {
    for (size_t b = 0; b < n_blocks; ++b, c += kBytes) {
      const __m512i words = _mm512_srli_epi32(line_at(c), 16);
      out[b] = _mm512_xor_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)), _mm512_set1_ps(-0.0f));
    }
  }
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* c, size_t n_blocks, Body body) {
    for (size_t b = 0; b < n_blocks; ++b, c += kBytes) {
      __m512i levels[kVectors];
      Strip<kType>::levels(c, levels);
      body(b, levels);
    }
  }

 protected:
  // 16 bytes of two 4-bit levels each, from byte kFirst of each block on.
  template <int kFirst>
  TROIKA_INLINE static void nibbles(const std::byte* c, __m512i (&levels)[kVectors]) {
    unrolled<4>([&](auto i) TROIKA_INLINE {
      const __m512i pairs = line_at(c + kPanelRows * kFirst + 64 * i);
      levels[i] = low_nibbles(pairs);
      levels[i + 4] = high_nibbles(pairs);
    });
  }
  // Adds 16 to levels whose bit is set in the word at byte kFirst of each block.
  template <int kFirst>
  TROIKA_INLINE static void add_fifths(const std::byte* c, __m512i (&levels)[kVectors]) {
    const __m512i bits = line_at(c + kPanelRows * kFirst);
    unrolled<kVectors>([&](auto i) TROIKA_INLINE {
      // The byte of each lane that has the four bits, four times.
      constexpr int kByte = i / 2 * 0x01010101;
      const __m512i bytes = _mm512_broadcast_i32x4(
          _mm_setr_epi32(kByte, kByte + 0x04040404, kByte + 0x08080808, kByte + 0x0c0c0c0c));
      const __m512i spread = _mm512_shuffle_epi8(bits, bytes);
      const __m512i wanted =
          _mm512_set1_epi32(i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
      levels[i] = _mm512_mask_add_epi8(levels[i], _mm512_test_epi8_mask(spread, wanted), levels[i],
                                       _mm512_set1_epi8(16));
    });
  }
};

template <>
struct Strip<Type::kQ4_0> : StripOfBlocks<Type::kQ4_0> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<2>(c, levels);
  }
};
template <>
struct Strip<Type::kQ4_1> : StripOfBlocks<Type::kQ4_1> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<4>(c, levels);
  }
};
template <>
struct Strip<Type::kQ5_0> : StripOfBlocks<Type::kQ5_0> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<6>(c, levels);
    add_fifths<2>(c, levels);
  }
};
template <>
struct Strip<Type::kQ5_1> : StripOfBlocks<Type::kQ5_1> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<8>(c, levels);
    add_fifths<4>(c, levels);
  }
};
template <>
struct Strip<Type::kQ8_0> : StripOfBlocks<Type::kQ8_0> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    unrolled<8>([&](auto i) TROIKA_INLINE {
      levels[i] =
          _mm512_xor_si512(line_at(c + 32 + 64 * i), _mm512_set1_epi8(static_cast<char>(0x80)));
    });
  }
};
template <>
struct Strip<Type::kIQ4_NL> : StripOfBlocks<Type::kIQ4_NL> {
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<2>(c, levels);
    unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = coded(tensor::kUnevenLevels, levels[i]); });
  }
};
template <>
struct Strip<Type::kMXFP4> : StripOfBlocks<Type::kMXFP4> {
  // As Format<kMXFP4> has them.
  static void scales(const std::byte* c, size_t n_blocks, __m512* out) {
    for (size_t b = 0; b < n_blocks; ++b, c += kBytes) {
      const __m512i exponents = _mm512_cvtepu8_epi32(load_16(c));
      const __m512i normal =
          _mm512_slli_epi32(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)), 23);
      const __m512i least = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), exponents);
      const __mmask16 is_least = _mm512_cmplt_epi32_mask(exponents, _mm512_set1_epi32(2));
      out[b] = _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_least, least));
    }
  }
  TROIKA_INLINE static void levels(const std::byte* c, __m512i (&levels)[8]) {
    nibbles<1>(c, levels);
    unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = coded(tensor::kTinyFloats, levels[i]); });
  }
};

// Super-blocks of eight groups of 32 with d and dmin in front, then multiples of 6 bits, packed as
// tensor/q4_k.h says.
template <Type kType>
struct StripOfPairs {
  using Levels = Ordered<kType>;
  static constexpr int kVectors = 8;

  static void scales(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    const __m512i a = line_at(c + 64), b = line_at(c + 192);
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f);
    store(sixteen_halves(c), _mm512_and_si512(a, six), low_nibbles(b), top(a), out);
  }
  static void minima(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    const __m512i a = line_at(c + 128), b = line_at(c + 192);
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f);
    store(sixteen_halves(c + 32), _mm512_and_si512(a, six), high_nibbles(b), top(a), out);
  }

 protected:
  TROIKA_INLINE static __m512i top(__m512i a) {
    return _mm512_and_si512(_mm512_srli_epi32(a, 2), _mm512_set1_epi32(0x30303030));
  }
  TROIKA_INLINE static void store(__m512 of_all, __m512i first, __m512i low, __m512i high,
                                  __m512* out) {
    const __m512i last = _mm512_or_si512(low, high);
    unrolled<4>([&](auto g) TROIKA_INLINE {
      out[g] = _mm512_mul_ps(of_all, _mm512_cvtepi32_ps(byte_of<g>(first)));
      out[g + 4] = _mm512_mul_ps(of_all, _mm512_cvtepi32_ps(byte_of<g>(last)));
    });
  }
};

template <>
struct Strip<Type::kQ4_K> : StripOfPairs<Type::kQ4_K> {
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* c, size_t /*n_blocks*/, Body body) {
    c += kPanelRows * 16;
    for (size_t pair = 0; pair < 4; ++pair, c += 512) {
      __m512i levels[8];
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = low_nibbles(line_at(c + 64 * i)); });
      body(2 * pair, levels);
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = high_nibbles(line_at(c + 64 * i)); });
      body(2 * pair + 1, levels);
    }
  }
};

template <>
struct Strip<Type::kQ5_K> : StripOfPairs<Type::kQ5_K> {
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* c, size_t /*n_blocks*/, Body body) {
    const std::byte* fifths = c + kPanelRows * 16;
    c += kPanelRows * 48;
    for (size_t pair = 0; pair < 4; ++pair, c += 512) {
      __m512i levels[8];
      const auto add_fifths = [&](size_t group) TROIKA_INLINE {
        const __m512i bit = _mm512_set1_epi8(static_cast<char>(1U << group));
        unrolled<8>([&](auto i) TROIKA_INLINE {
          levels[i] =
              _mm512_mask_add_epi8(levels[i], _mm512_test_epi8_mask(line_at(fifths + 64 * i), bit),
                                   levels[i], _mm512_set1_epi8(16));
        });
      };
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = low_nibbles(line_at(c + 64 * i)); });
      add_fifths(2 * pair);
      body(2 * pair, levels);
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = high_nibbles(line_at(c + 64 * i)); });
      add_fifths(2 * pair + 1);
      body(2 * pair + 1, levels);
    }
  }
};

template <>
struct Strip<Type::kIQ4_XS> {
  using Levels = Ordered<Type::kIQ4_XS>;
  static constexpr int kVectors = 8;

  static void scales(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    const __m512 d = sixteen_halves(c);
    const __m512i tops = _mm512_cvtepu16_epi32(load_32(c + 32)), lows = line_at(c + 64);
    unrolled<8>([&](auto g) TROIKA_INLINE {
      const __m512i low = _mm512_and_si512(_mm512_srli_epi32(lows, 4 * g), _mm512_set1_epi32(15));
      const __m512i top = _mm512_and_si512(_mm512_srli_epi32(tops, 2 * g), _mm512_set1_epi32(3));
      const __m512i multiple = _mm512_or_si512(low, _mm512_slli_epi32(top, 4));
      out[g] =
          _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_sub_epi32(multiple, _mm512_set1_epi32(32))));
    });
  }
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* c, size_t /*n_blocks*/, Body body) {
    c += kPanelRows * 8;
    for (size_t group = 0; group < 8; ++group, c += 256) {
      __m512i levels[8];
      unrolled<4>([&](auto i) TROIKA_INLINE {
        const __m512i pairs = line_at(c + 64 * i);
        levels[i] = coded(tensor::kUnevenLevels, low_nibbles(pairs));
        levels[i + 4] = coded(tensor::kUnevenLevels, high_nibbles(pairs));
      });
      body(group, levels);
    }
  }
};

// Groups of 16 with whole-number multiples of d. The same eight vectors have the levels of four
// times 32 weights, in different bits: those of a half of the super-block.
template <Type kType>
struct StripOfSixteens {
  using Levels = Ordered<kType>;
  static constexpr int kVectors = 4;

  // Strip<kType>::four(c, half, quarter, i) has the levels 4 i to 4 i + 3 of these 32.
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* c, size_t /*n_blocks*/, Body body) {
    for (size_t half = 0; half < 2; ++half) {
      unrolled<4>([&](auto quarter) TROIKA_INLINE {
        unrolled<2>([&](auto j) TROIKA_INLINE {
          __m512i levels[kVectors];
          unrolled<kVectors>([&](auto i) TROIKA_INLINE {
            levels[i] = Strip<kType>::template four<quarter>(c, half, 4 * j + i);
          });
          body(8 * half + 2 * quarter + j, levels);
        });
      });
    }
  }

 protected:
  // Multiples of the groups 4 i to 4 i + 3 are the bytes of word i of each row.
  template <typename OfWord>
  TROIKA_INLINE static void store(__m512 of_all, OfWord of_word, __m512* out) {
    unrolled<4>([&](auto i) TROIKA_INLINE {
      const __m512i word = of_word(i);
      unrolled<4>([&](auto j) TROIKA_INLINE {
        const __m512i multiple = _mm512_srai_epi32(_mm512_slli_epi32(word, 24 - 8 * j), 24);
        out[4 * i + j] = _mm512_mul_ps(of_all, _mm512_cvtepi32_ps(multiple));
      });
    });
  }
  template <int kMask>
  TROIKA_INLINE static __m512i masked(__m512i v) {
    return _mm512_and_si512(v, _mm512_set1_epi8(kMask));
  }
};

template <>
struct Strip<Type::kQ6_K> : StripOfSixteens<Type::kQ6_K> {
  static void scales(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    store(
        sixteen_halves(c + kPanelRows * 208),
        [&](int i) TROIKA_INLINE { return line_at(c + kPanelRows * 192 + 64 * i); }, out);
  }
  // The low four bits from one byte, the next two from another.
  template <int kQuarter>
  TROIKA_INLINE static __m512i four(const std::byte* c, size_t half, int i) {
    __m512i low = line_at(c + kPanelRows * (64 * half + 32 * (kQuarter % 2)) + 64 * i);
    __m512i high = line_at(c + kPanelRows * (128 + 32 * half) + 64 * i);
    if constexpr (kQuarter >= 2) low = _mm512_srli_epi16(low, 4);
    if constexpr (kQuarter < 2) high = _mm512_slli_epi16(high, 4 - 2 * kQuarter);
    if constexpr (kQuarter == 3) high = _mm512_srli_epi16(high, 2);
    return masked<0x3f>(_mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, 0xca));
  }
};

template <>
struct Strip<Type::kQ2_K> : StripOfSixteens<Type::kQ2_K> {
  static void scales(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    store(
        sixteen_halves(c + kPanelRows * 80),
        [&](int i) TROIKA_INLINE { return low_nibbles(line_at(c + 64 * i)); }, out);
  }
  static void minima(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    store(
        sixteen_halves(c + kPanelRows * 82),
        [&](int i) TROIKA_INLINE { return high_nibbles(line_at(c + 64 * i)); }, out);
  }
  template <int kQuarter>
  TROIKA_INLINE static __m512i four(const std::byte* c, size_t half, int i) {
    const __m512i packed = line_at(c + kPanelRows * (16 + 32 * half) + 64 * i);
    return masked<3>(_mm512_srli_epi16(packed, 2 * kQuarter));
  }
};

template <>
struct Strip<Type::kQ3_K> : StripOfSixteens<Type::kQ3_K> {
  // The packing is described in tensor/q3_k.h; here four groups at a time.
  static void scales(const std::byte* c, size_t /*n_blocks*/, __m512* out) {
    const std::byte* words = c + kPanelRows * 96;
    const __m512i tops = line_at(words + 128);
    store(
        sixteen_halves(c + kPanelRows * 108),
        [&](auto i) TROIKA_INLINE {
          const __m512i word = line_at(words + 64 * (i % 2));
          const __m512i low = i / 2 == 0 ? low_nibbles(word) : high_nibbles(word);
          const __m512i high = masked<3>(_mm512_srli_epi16(tops, 2 * i));
          return _mm512_sub_epi8(_mm512_or_si512(low, _mm512_slli_epi16(high, 4)),
                                 _mm512_set1_epi8(32));
        },
        out);
  }
  template <int kQuarter>
  TROIKA_INLINE static __m512i four(const std::byte* c, size_t half, int i) {
    const __m512i packed = line_at(c + kPanelRows * (32 + 32 * half) + 64 * i);
    const __m512i low = masked<3>(_mm512_srli_epi16(packed, 2 * kQuarter));
    const __m512i bit = _mm512_set1_epi8(static_cast<char>((1 << kQuarter) << (4 * half)));
    return _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(line_at(c + 64 * i), bit), low,
                                _mm512_set1_epi8(4));
  }
};
