// How each block format gives the levels of a strip (tensor/strips.h), with an element of four
// bytes for each row and four levels of its k side by side; written once for all instruction sets.
// A vector has kWordRows of the 16 rows: the part of the strip that a StripAt names. Strip<kType>
// has
//   kVectors       counts vectors of levels in a group: 8 for groups of 32, 4 for groups of 16
//   scales(c, n_blocks, out)   writes the scales of a super-block's groups
//   minima(c, n_blocks, out)   writes their minima, where there are minima
//   visit(c, n_blocks, body)   calls body(group, levels) for each group, in their order
// where c is the part at a super-block, and n_blocks counts the blocks of 32 that it has still; and
// where kGroup is 16
//   d(c), multiples(c, i)      return what all scales have in common, and the bytes that multiply
//                              it in groups 4 i to 4 i + 3
//   dmin(c), min_multiples(c, i)   return the same of minima, where there are minima
//   four<quarter>(c, half, i)  returns levels 4 i to 4 i + 3 of the two groups of a block of 32
//
// Needs of the instruction set (x86/words_avx2.inl is an example)
//   Words, Floats   vectors of kWordRows elements; Words know &, | and ^
//   StripLevels<kType>   kBytes of a super-block, kGroup, kOffset (what levels have too much),
//                        kSigned (whether they are signed bytes), kHasMinima and kMayOverflow
//                        (whether a finite scale times a level can be infinite)
// and the functions on these vectors that are called here.

// A strip is one long row, in which hardware looks ahead only to the end of a page. So bytes far
// ahead are fetched into the second-level cache, and bytes that are needed soon into the first.
constexpr size_t kStripAhead = 8192, kStripSoon = 2048;

// Some rows of a strip, each from its block c on.
struct StripAt {
  const std::byte* c;
  size_t row;  // the first of these rows

  TROIKA_INLINE StripAt behind(size_t n_bytes) const { return {c + kStripRows * n_bytes, row}; }
  // Return what begins at a byte of each block: a word of four bytes, of two, of one.
  TROIKA_INLINE Words words(size_t byte) const {
    return load_words(c + kStripRows * byte + 4 * row);
  }
  TROIKA_INLINE Words shorts(size_t byte) const {
    return load_shorts(c + kStripRows * byte + 2 * row);
  }
  TROIKA_INLINE Words bytes(size_t byte) const { return load_bytes(c + kStripRows * byte + row); }
  TROIKA_INLINE Floats halves(size_t byte) const {
    return load_halves(c + kStripRows * byte + 2 * row);
  }
};

TROIKA_INLINE inline Words low_nibbles(Words bytes) { return bytes & splat_bytes(15); }
TROIKA_INLINE inline Words high_nibbles(Words bytes) { return down_8<4>(bytes); }
// Returns byte kByte of each element.
template <int kByte>
TROIKA_INLINE inline Words byte_of(Words words) {
  if constexpr (kByte == 0) return words & splat_words(255);
  return down_32<8 * kByte>(words) & splat_words(255);
}
template <int kByte>
TROIKA_INLINE inline Words signed_byte_of(Words words) {
  if constexpr (kByte == 3) return signed_down_32<24>(words);
  return signed_down_32<24>(up_32<24 - 8 * kByte>(words));
}

// Turns signed bytes into levels that have kOffset too much.
template <int kOffset>
TROIKA_INLINE inline Words with_offset(Words bytes) {
  static_assert(kOffset == 0 || kOffset == 128);
  if constexpr (kOffset == 0) return bytes;
  return bytes ^ splat_bytes(0x80);
}

template <Type kType>
struct Strip;

// Blocks of 32 whose first words are the scale, or scale and least weight. The eight vectors of a
// block's levels are its group.
template <Type kType>
struct StripOfBlocks {
  using Levels = StripLevels<kType>;
  static constexpr int kVectors = 8;
  static constexpr size_t kBlockBytes = Levels::kBytes / 8;

  TROIKA_INLINE static void scales(StripAt c, size_t n_blocks, Floats* out) {
    for (size_t b = 0; b < n_blocks; ++b, c = c.behind(kBlockBytes)) {
      out[b] = Strip<kType>::scale(c);
    }
  }
  TROIKA_INLINE static void minima(StripAt c, size_t n_blocks, Floats* out) {
    for (size_t b = 0; b < n_blocks; ++b, c = c.behind(kBlockBytes)) {
      out[b] = negated(floats_of_halves(down_32<16>(c.words(0))));
    }
  }
  template <typename Body>
  TROIKA_INLINE static void visit(StripAt c, size_t n_blocks, Body body) {
    for (size_t b = 0; b < n_blocks; ++b, c = c.behind(kBlockBytes)) {
      Words levels[kVectors];
      Strip<kType>::levels(c, levels);
      body(b, levels);
    }
  }

 protected:
  TROIKA_INLINE static Floats scale(StripAt c) {
    if constexpr (Levels::kHasMinima) return floats_of_halves(c.words(0));
    return c.halves(0);
  }
  // Unpacks 16 bytes of two 4-bit levels each, from byte kFirst of each block on.
  template <int kFirst>
  TROIKA_INLINE static void nibbles(StripAt c, Words (&levels)[kVectors]) {
    unrolled<4>([&](auto i) TROIKA_INLINE {
      const Words pairs = c.words(kFirst + 4 * i);
      levels[i] = low_nibbles(pairs);
      levels[i + 4] = high_nibbles(pairs);
    });
  }
  // Adds 16 to levels whose bit is set in the word at byte kFirst of each block.
  template <int kFirst>
  TROIKA_INLINE static void add_fifths(StripAt c, Words (&levels)[kVectors]) {
    const Words bits = c.words(kFirst);
    unrolled<kVectors>([&](auto i) TROIKA_INLINE {
      const Words wanted = splat_words(i % 2 == 0 ? 0x08040201 : 0x80402010);
      levels[i] = add_where<16>(levels[i], spread_byte<i / 2>(bits), wanted);
    });
  }
  TROIKA_INLINE static void look_up(const int8_t* codebook, Words (&levels)[kVectors]) {
    unrolled<kVectors>(
        [&](auto i) TROIKA_INLINE { levels[i] = coded<Levels::kOffset>(codebook, levels[i]); });
  }
};

template <>
struct Strip<Type::kQ4_0> : StripOfBlocks<Type::kQ4_0> {
  friend StripOfBlocks<Type::kQ4_0>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) { nibbles<2>(c, levels); }
};
template <>
struct Strip<Type::kQ4_1> : StripOfBlocks<Type::kQ4_1> {
  friend StripOfBlocks<Type::kQ4_1>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) { nibbles<4>(c, levels); }
};
template <>
struct Strip<Type::kQ5_0> : StripOfBlocks<Type::kQ5_0> {
  friend StripOfBlocks<Type::kQ5_0>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) {
    nibbles<6>(c, levels);
    add_fifths<2>(c, levels);
  }
};
template <>
struct Strip<Type::kQ5_1> : StripOfBlocks<Type::kQ5_1> {
  friend StripOfBlocks<Type::kQ5_1>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) {
    nibbles<8>(c, levels);
    add_fifths<4>(c, levels);
  }
};
template <>
struct Strip<Type::kQ8_0> : StripOfBlocks<Type::kQ8_0> {
  friend StripOfBlocks<Type::kQ8_0>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) {
    unrolled<8>([&](auto i) TROIKA_INLINE {
      levels[i] = with_offset<Levels::kOffset>(c.words(2 + 4 * i));
    });
  }
};
template <>
struct Strip<Type::kIQ4_NL> : StripOfBlocks<Type::kIQ4_NL> {
  friend StripOfBlocks<Type::kIQ4_NL>;
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) {
    nibbles<2>(c, levels);
    look_up(tensor::kUnevenLevels, levels);
  }
};
template <>
struct Strip<Type::kMXFP4> : StripOfBlocks<Type::kMXFP4> {
  TROIKA_INLINE static Floats scale(StripAt c) { return floats_of_exponents(c.bytes(0)); }
  TROIKA_INLINE static void levels(StripAt c, Words (&levels)[8]) {
    nibbles<1>(c, levels);
    look_up(tensor::kTinyFloats, levels);
  }
};

// Super-blocks of eight groups of 32 with d and dmin in front, then multiples of 6 bits, packed as
// tensor/q4_k.h says.
template <Type kType>
struct StripOfPairs {
  using Levels = StripLevels<kType>;
  static constexpr int kVectors = 8;

  TROIKA_INLINE static void scales(StripAt c, size_t /*n_blocks*/, Floats* out) {
    const Words a = c.words(4), b = c.words(12);
    store(c.halves(0), a & splat_bytes(0x3f), low_nibbles(b) | top(a), out);
  }
  TROIKA_INLINE static void minima(StripAt c, size_t /*n_blocks*/, Floats* out) {
    const Words a = c.words(8), b = c.words(12);
    store(c.halves(2), a & splat_bytes(0x3f), high_nibbles(b) | top(a), out);
  }

 protected:
  TROIKA_INLINE static Words top(Words a) { return down_16<2>(a) & splat_bytes(0x30); }
  TROIKA_INLINE static void store(Floats of_all, Words first, Words last, Floats* out) {
    unrolled<4>([&](auto g) TROIKA_INLINE {
      out[g] = times(of_all, floats_of(byte_of<g>(first)));
      out[g + 4] = times(of_all, floats_of(byte_of<g>(last)));
    });
  }
};

template <>
struct Strip<Type::kQ4_K> : StripOfPairs<Type::kQ4_K> {
  template <typename Body>
  TROIKA_INLINE static void visit(StripAt c, size_t /*n_blocks*/, Body body) {
    c = c.behind(16);
    for (size_t pair = 0; pair < 4; ++pair, c = c.behind(32)) {
      Words levels[8];
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = low_nibbles(c.words(4 * i)); });
      body(2 * pair, levels);
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = high_nibbles(c.words(4 * i)); });
      body(2 * pair + 1, levels);
    }
  }
};

template <>
struct Strip<Type::kQ5_K> : StripOfPairs<Type::kQ5_K> {
  template <typename Body>
  TROIKA_INLINE static void visit(StripAt c, size_t /*n_blocks*/, Body body) {
    const StripAt fifths = c.behind(16);
    c = c.behind(48);
    for (size_t pair = 0; pair < 4; ++pair, c = c.behind(32)) {
      Words levels[8];
      const auto add_fifths = [&](size_t group) TROIKA_INLINE {
        const Words bit = splat_bytes(1 << group);
        unrolled<8>([&](auto i) TROIKA_INLINE {
          levels[i] = add_where<16>(levels[i], fifths.words(4 * i), bit);
        });
      };
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = low_nibbles(c.words(4 * i)); });
      add_fifths(2 * pair);
      body(2 * pair, levels);
      unrolled<8>([&](auto i) TROIKA_INLINE { levels[i] = high_nibbles(c.words(4 * i)); });
      add_fifths(2 * pair + 1);
      body(2 * pair + 1, levels);
    }
  }
};

template <>
struct Strip<Type::kIQ4_XS> {
  using Levels = StripLevels<Type::kIQ4_XS>;
  static constexpr int kVectors = 8;

  TROIKA_INLINE static void scales(StripAt c, size_t /*n_blocks*/, Floats* out) {
    const Floats d = c.halves(0);
    const Words tops = c.shorts(2), lows = c.words(4);
    unrolled<8>([&](auto g) TROIKA_INLINE {
      const Words low = down_32<4 * g>(lows) & splat_words(15);
      const Words top = down_32<2 * g>(tops) & splat_words(3);
      out[g] = times(d, floats_of(less_words(low | up_32<4>(top), splat_words(32))));
    });
  }
  template <typename Body>
  TROIKA_INLINE static void visit(StripAt c, size_t /*n_blocks*/, Body body) {
    c = c.behind(8);
    for (size_t group = 0; group < 8; ++group, c = c.behind(16)) {
      Words levels[8];
      unrolled<4>([&](auto i) TROIKA_INLINE {
        const Words pairs = c.words(4 * i);
        levels[i] = coded<Levels::kOffset>(tensor::kUnevenLevels, low_nibbles(pairs));
        levels[i + 4] = coded<Levels::kOffset>(tensor::kUnevenLevels, high_nibbles(pairs));
      });
      body(group, levels);
    }
  }
};

// Groups of 16 with whole-number multiples of d. The same eight vectors have the levels of four
// times 32 weights, in different bits: those of a half of the super-block.
template <Type kType>
struct StripOfSixteens {
  using Levels = StripLevels<kType>;
  static constexpr int kVectors = 4;

  TROIKA_INLINE static void scales(StripAt c, size_t /*n_blocks*/, Floats* out) {
    store(
        Strip<kType>::d(c), [&](auto i) TROIKA_INLINE { return Strip<kType>::multiples(c, i); },
        out);
  }
  TROIKA_INLINE static void minima(StripAt c, size_t /*n_blocks*/, Floats* out) {
    store(
        Strip<kType>::dmin(c),
        [&](auto i) TROIKA_INLINE { return Strip<kType>::min_multiples(c, i); }, out);
  }
  template <typename Body>
  TROIKA_INLINE static void visit(StripAt c, size_t /*n_blocks*/, Body body) {
    for (size_t half = 0; half < 2; ++half) {
      unrolled<4>([&](auto quarter) TROIKA_INLINE {
        unrolled<2>([&](auto j) TROIKA_INLINE {
          Words levels[kVectors];
          unrolled<kVectors>([&](auto i) TROIKA_INLINE {
            levels[i] = Strip<kType>::template four<quarter>(c, half, 4 * j + i);
          });
          body(8 * half + 2 * quarter + j, levels);
        });
      });
    }
  }

 protected:
  template <typename OfWord>
  TROIKA_INLINE static void store(Floats of_all, OfWord of_word, Floats* out) {
    unrolled<4>([&](auto i) TROIKA_INLINE {
      const Words word = of_word(i);
      unrolled<4>([&](auto j) TROIKA_INLINE {
        out[4 * i + j] = times(of_all, floats_of(signed_byte_of<j>(word)));
      });
    });
  }
};

template <>
struct Strip<Type::kQ6_K> : StripOfSixteens<Type::kQ6_K> {
  TROIKA_INLINE static Floats d(StripAt c) { return c.halves(208); }
  TROIKA_INLINE static Words multiples(StripAt c, size_t i) { return c.words(192 + 4 * i); }
  // Joins the low four bits from one byte with the next two from another.
  template <int kQuarter>
  TROIKA_INLINE static Words four(StripAt c, size_t half, size_t i) {
    Words low = c.words(64 * half + 32 * (kQuarter % 2) + 4 * i);
    Words high = c.words(128 + 32 * half + 4 * i);
    if constexpr (kQuarter >= 2) low = down_16<4>(low);
    if constexpr (kQuarter < 2) high = up_16<4 - 2 * kQuarter>(high);
    if constexpr (kQuarter == 3) high = down_16<2>(high);
    return (low & splat_bytes(15)) | (high & splat_bytes(0x30));
  }
};

template <>
struct Strip<Type::kQ2_K> : StripOfSixteens<Type::kQ2_K> {
  TROIKA_INLINE static Floats d(StripAt c) { return c.halves(80); }
  TROIKA_INLINE static Floats dmin(StripAt c) { return c.halves(82); }
  TROIKA_INLINE static Words multiples(StripAt c, size_t i) { return low_nibbles(c.words(4 * i)); }
  TROIKA_INLINE static Words min_multiples(StripAt c, size_t i) {
    return high_nibbles(c.words(4 * i));
  }
  template <int kQuarter>
  TROIKA_INLINE static Words four(StripAt c, size_t half, size_t i) {
    const Words packed = c.words(16 + 32 * half + 4 * i);
    return down_16<2 * kQuarter>(packed) & splat_bytes(3);
  }
};

template <>
struct Strip<Type::kQ3_K> : StripOfSixteens<Type::kQ3_K> {
  TROIKA_INLINE static Floats d(StripAt c) { return c.halves(108); }
  // The packing is described in tensor/q3_k.h; here four groups at a time.
  template <typename Index>
  TROIKA_INLINE static Words multiples(StripAt c, Index i) {
    const Words word = c.words(96 + 4 * (i % 2));
    const Words low = i / 2 == 0 ? low_nibbles(word) : high_nibbles(word);
    const Words high = down_16<2 * i>(c.words(104)) & splat_bytes(3);
    return less_bytes(low | up_16<4>(high), splat_bytes(32));
  }
  template <int kQuarter>
  TROIKA_INLINE static Words four(StripAt c, size_t half, size_t i) {
    const Words packed = c.words(32 + 32 * half + 4 * i);
    const Words low = down_16<2 * kQuarter>(packed) & splat_bytes(3);
    return add_where<4>(low, c.words(4 * i), splat_bytes((1 << kQuarter) << (4 * half)));
  }
};

// Calls body(b, levels) for each 32 weights of a super-block, also where groups are of 16.
template <Type kType, typename Body>
TROIKA_INLINE inline void visit_blocks(StripAt c, size_t n_blocks, Body body) {
  if constexpr (StripLevels<kType>::kGroup == 32) {
    Strip<kType>::visit(c, n_blocks, body);
  } else {
    for (size_t half = 0; half < 2; ++half) {
      unrolled<4>([&](auto quarter) TROIKA_INLINE {
        Words levels[8];
        unrolled<8>([&](auto i) TROIKA_INLINE {
          levels[i] = Strip<kType>::template four<quarter>(c, half, i);
        });
        body(4 * half + quarter, levels);
      });
    }
  }
}
