// How each block format gives its levels to NEON: 32 at a time, signed, as two vectors. `c` points
// to a super-block of 256 weights: one block in the file, or eight of 32. Format<kType> has
//   kBytes           counts bytes of a super-block; kBlock: weights of a block in the file
//   kGroup           counts weights under one scale: 32 or 16
//   kOffset          was added to the file's levels to make them unsigned; kSigned: they are signed
//   levels(c, j)     returns the j-th 32 levels
//   scales(c, s)     writes scales of the eight 32s; where kGroup is 16, one for all of them
//   multiples(c)     where kGroup is 16, returns the signed bytes that multiply this scale, one for
//                    each of the sixteen groups
// and if kHasMinima
//   minima(c, m)     writes what each weight of the eight 32s has too much; where kGroup is 16, one
//                    number for all of them
//   min_multiples(c) where kGroup is 16, returns the bytes that multiply this number
// and kMayOverflow if a finite scale times a level can be infinite.
template <Type kType>
struct Format;

using Levels = int8x16x2_t;

TROIKA_INLINE inline uint8x16_t load_16(const std::byte* p) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(p));
}
template <typename Word>
TROIKA_INLINE inline Word load_word(const std::byte* p) {
  Word word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

template <int kStride>
TROIKA_INLINE inline void eight_scales(const std::byte* c, float* scales) {
  uint16_t halves[8];
  for (int i = 0; i < 8; ++i) halves[i] = load_word<uint16_t>(c + i * kStride);
  vst1q_f32(scales, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves))));
  vst1q_f32(scales + 4, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves + 4))));
}
// Reads the least weights of eight blocks and negates them, which makes them minima.
template <int kStride>
TROIKA_INLINE inline void eight_minima(const std::byte* c, float* minima) {
  eight_scales<kStride>(c, minima);
  for (int i = 0; i < 8; ++i) minima[i] = -minima[i];
}

// The 4-bit levels of 16 bytes: those in the low halves and those in the high halves.
struct Nibbles {
  uint8x16_t low, high;
};
TROIKA_INLINE inline Nibbles nibbles(const std::byte* p) {
  const uint8x16_t pairs = load_16(p);
  return {vandq_u8(pairs, vdupq_n_u8(15)), vshrq_n_u8(pairs, 4)};
}
// Returns 16 for each level whose fifth bit is set; 16 of these bits lie in half a word.
TROIKA_INLINE inline uint8x16_t fifth_bits(const std::byte* half_of_word) {
  static constexpr uint8_t kWanted[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t spread = vcombine_u8(vdup_n_u8(load_word<uint8_t>(half_of_word)),
                                        vdup_n_u8(load_word<uint8_t>(half_of_word + 1)));
  return vandq_u8(vtstq_u8(spread, vld1q_u8(kWanted)), vdupq_n_u8(16));
}
TROIKA_INLINE inline Nibbles with_fifth_bits(Nibbles n, const std::byte* word) {
  return {vorrq_u8(n.low, fifth_bits(word)), vorrq_u8(n.high, fifth_bits(word + 2))};
}

TROIKA_INLINE inline Levels without_offset(uint8x16_t first, uint8x16_t second, int8_t offset) {
  return {{vsubq_s8(vreinterpretq_s8_u8(first), vdupq_n_s8(offset)),
           vsubq_s8(vreinterpretq_s8_u8(second), vdupq_n_s8(offset))}};
}
TROIKA_INLINE inline Levels without_offset(Nibbles n, int8_t offset) {
  return without_offset(n.low, n.high, offset);
}
TROIKA_INLINE inline Levels look_up(const int8_t* codebook, Nibbles codes) {
  const int8x16_t levels = vld1q_s8(codebook);
  return {{vqtbl1q_s8(levels, codes.low), vqtbl1q_s8(levels, codes.high)}};
}

struct UnsignedLevels {
  static constexpr size_t kGroup = 32;
  static constexpr int8_t kOffset = 0;
  static constexpr bool kSigned = false, kHasMinima = false, kMayOverflow = false;
};

// Blocks of 32 that begin with a scale.
template <int kBlockBytes>
struct BlocksOf32 : UnsignedLevels {
  static constexpr size_t kBytes = 8 * kBlockBytes, kBlock = 32;
  static void scales(const std::byte* c, float* s) { eight_scales<kBlockBytes>(c, s); }
};

template <>
struct Format<Type::kQ4_0> : BlocksOf32<18> {
  static constexpr int8_t kOffset = 8;
  static Levels levels(const std::byte* c, int j) {
    return without_offset(nibbles(c + 18 * j + 2), kOffset);
  }
};

template <>
struct Format<Type::kQ4_1> : BlocksOf32<20> {
  static constexpr bool kHasMinima = true;
  static void minima(const std::byte* c, float* m) { eight_minima<20>(c + 2, m); }
  static Levels levels(const std::byte* c, int j) {
    return without_offset(nibbles(c + 20 * j + 4), 0);
  }
};

template <>
struct Format<Type::kQ5_0> : BlocksOf32<22> {
  static constexpr int8_t kOffset = 16;
  static Levels levels(const std::byte* c, int j) {
    return without_offset(with_fifth_bits(nibbles(c + 22 * j + 6), c + 22 * j + 2), kOffset);
  }
};

template <>
struct Format<Type::kQ5_1> : BlocksOf32<24> {
  static constexpr bool kHasMinima = true;
  static void minima(const std::byte* c, float* m) { eight_minima<24>(c + 2, m); }
  static Levels levels(const std::byte* c, int j) {
    return without_offset(with_fifth_bits(nibbles(c + 24 * j + 8), c + 24 * j + 4), 0);
  }
};

template <>
struct Format<Type::kQ8_0> : BlocksOf32<34> {
  static constexpr bool kSigned = true;
  static Levels levels(const std::byte* c, int j) {
    return {{vreinterpretq_s8_u8(load_16(c + 34 * j + 2)),
             vreinterpretq_s8_u8(load_16(c + 34 * j + 18))}};
  }
};

template <>
struct Format<Type::kIQ4_NL> : BlocksOf32<18> {
  static constexpr bool kSigned = true;
  static Levels levels(const std::byte* c, int j) {
    return look_up(tensor::kUnevenLevels, nibbles(c + 18 * j + 2));
  }
};

template <>
struct Format<Type::kMXFP4> : BlocksOf32<17> {
  static constexpr bool kSigned = true, kMayOverflow = true;
  static void scales(const std::byte* c, float* s) {
    for (int i = 0; i < 8; ++i) s[i] = tensor::half_of_power(load_word<uint8_t>(c + 17 * i));
  }
  static Levels levels(const std::byte* c, int j) {
    return look_up(tensor::kTinyFloats, nibbles(c + 17 * j + 1));
  }
};

// d and dmin in front, then multiples of 6 bits, packed as tensor/q4_k.h says; here four groups at
// a time.
struct AffineMultiples : UnsignedLevels {
  static constexpr size_t kBlock = 256;
  static constexpr bool kHasMinima = true;

  static void scaled(const std::byte* half, uint32_t low, uint32_t high, float* y) {
    const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
    const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
    const float factor = V::f16(half);
    vst1q_f32(y, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(words))), factor));
    vst1q_f32(y + 4, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_high_u16(words))), factor));
  }
  static void scales(const std::byte* c, float* s) {
    const auto a = load_word<uint32_t>(c + 4), b = load_word<uint32_t>(c + 12);
    scaled(c, a & 0x3f3f3f3f, (b & 0x0f0f0f0f) | (a >> 2 & 0x30303030), s);
  }
  static void minima(const std::byte* c, float* m) {
    const auto a = load_word<uint32_t>(c + 8), b = load_word<uint32_t>(c + 12);
    scaled(c + 2, a & 0x3f3f3f3f, (b >> 4 & 0x0f0f0f0f) | (a >> 2 & 0x30303030), m);
  }
  // Unpacks 4-bit levels: even groups lie in the low halves of 32 bytes, odd ones in the high
  // halves.
  static Nibbles paired_levels(const std::byte* first, int j) {
    const Nibbles a = nibbles(first + j / 2 * 32), b = nibbles(first + j / 2 * 32 + 16);
    return j % 2 == 0 ? Nibbles{a.low, b.low} : Nibbles{a.high, b.high};
  }
};

// Returns `value` where bit `bit` of a byte is set; else 0.
TROIKA_INLINE inline uint8x16_t where_set(const std::byte* bytes, int bit, uint8_t value) {
  const uint8x16_t wanted = vdupq_n_u8(static_cast<uint8_t>(1 << bit));
  return vandq_u8(vtstq_u8(load_16(bytes), wanted), vdupq_n_u8(value));
}

template <>
struct Format<Type::kQ4_K> : AffineMultiples {
  static constexpr size_t kBytes = 144;
  static Levels levels(const std::byte* c, int j) {
    return without_offset(paired_levels(c + 16, j), 0);
  }
};

template <>
struct Format<Type::kQ5_K> : AffineMultiples {
  static constexpr size_t kBytes = 176;
  static Levels levels(const std::byte* c, int j) {
    const Nibbles low = paired_levels(c + 48, j);
    return without_offset(vorrq_u8(low.low, where_set(c + 16, j, 16)),
                          vorrq_u8(low.high, where_set(c + 32, j, 16)), 0);
  }
};

template <>
struct Format<Type::kIQ4_XS> : UnsignedLevels {
  static constexpr size_t kBytes = 136, kBlock = 256;
  static constexpr bool kSigned = true;

  // The four low bits of multiples lie in four bytes, two top bits in a word.
  static void scales(const std::byte* c, float* s) {
    const float d = V::f16(c);
    const auto low = load_word<uint32_t>(c + 4);
    const auto top = load_word<uint16_t>(c + 2);
    for (int i = 0; i < 8; ++i) {
      const uint32_t multiple = (low >> (4 * i) & 15) | (top >> (2 * i) & 3u) << 4;
      s[i] = d * static_cast<float>(static_cast<int>(multiple) - 32);
    }
  }
  static Levels levels(const std::byte* c, int j) {
    return look_up(tensor::kUnevenLevels, nibbles(c + 8 + 16 * j));
  }
};

// Groups of 16 with whole-number multiples of d.
template <int kScaleAt>
struct GroupsOf16 : UnsignedLevels {
  static constexpr size_t kBlock = 256, kGroup = 16;

  static void scales(const std::byte* c, float* s) {
    vst1q_f32(s, vdupq_n_f32(V::f16(c + kScaleAt)));
    vst1q_f32(s + 4, vld1q_f32(s));
  }
  // Returns two bits of 16 of the j-th 32 levels, packed as tensor/two_bits.h says, at bit kTo of
  // each byte.
  template <int kTo>
  static uint8x16_t two_bits(const std::byte* bytes, int j) {
    const uint8x16_t packed = load_16(bytes + j / 4 * 32);
    const auto move = static_cast<int8_t>(kTo - j % 4 * 2);
    return vandq_u8(vshlq_u8(packed, vdupq_n_s8(move)), vdupq_n_u8(3 << kTo));
  }
};

template <>
struct Format<Type::kQ2_K> : GroupsOf16<80> {
  static constexpr size_t kBytes = 84;
  static constexpr bool kHasMinima = true;

  static void minima(const std::byte* c, float* m) { GroupsOf16<82>::scales(c, m); }
  static int8x16_t multiples(const std::byte* c) { return vreinterpretq_s8_u8(nibbles(c).low); }
  static int8x16_t min_multiples(const std::byte* c) {
    return vreinterpretq_s8_u8(nibbles(c).high);
  }
  static Levels levels(const std::byte* c, int j) {
    return without_offset(two_bits<0>(c + 16, j), two_bits<0>(c + 32, j), 0);
  }
};

template <>
struct Format<Type::kQ3_K> : GroupsOf16<108> {
  static constexpr size_t kBytes = 110;
  static constexpr int8_t kOffset = 4;

  // The packing is described in tensor/q3_k.h; here four groups at a time.
  static int8x16_t multiples(const std::byte* c) {
    const auto a = load_word<uint32_t>(c + 96), b = load_word<uint32_t>(c + 100);
    const auto top = load_word<uint32_t>(c + 104);
    const uint32_t words[4] = {(a & 0x0f0f0f0f) | (top & 0x03030303) << 4,
                               (b & 0x0f0f0f0f) | (top >> 2 & 0x03030303) << 4,
                               (a >> 4 & 0x0f0f0f0f) | (top >> 4 & 0x03030303) << 4,
                               (b >> 4 & 0x0f0f0f0f) | (top >> 6 & 0x03030303) << 4};
    return vsubq_s8(vreinterpretq_s8_u32(vld1q_u32(words)), vdupq_n_s8(32));
  }
  static Levels levels(const std::byte* c, int j) {
    return without_offset(vorrq_u8(two_bits<0>(c + 32, j), where_set(c, j, 4)),
                          vorrq_u8(two_bits<0>(c + 48, j), where_set(c + 16, j, 4)), kOffset);
  }
};

template <>
struct Format<Type::kQ6_K> : GroupsOf16<208> {
  static constexpr size_t kBytes = 210;
  static constexpr int8_t kOffset = 32;

  static int8x16_t multiples(const std::byte* c) { return vreinterpretq_s8_u8(load_16(c + 192)); }
  static Levels levels(const std::byte* c, int j) {
    const std::byte* low = c + j / 4 * 64 + j % 2 * 32;
    const Nibbles a = nibbles(low), b = nibbles(low + 16);
    const bool is_low = j % 4 < 2;
    return without_offset(vorrq_u8(is_low ? a.low : a.high, two_bits<4>(c + 128, j)),
                          vorrq_u8(is_low ? b.low : b.high, two_bits<4>(c + 144, j)), kOffset);
  }
};
