// How each block format gives its levels to NEON: 32 at a time, signed, as two vectors. `c` points
// to a super-block of 256 weights: one block in the file, or eight of 32.
//   kBytes  of a super-block, kBlock: weights of a block in the file
//   levels(c, j)  the j-th 32 levels (Q4_K: 0..15, without the minimum)
//   scales(c, s)  float scales of the eight 32s; of Q6_K they are d alone, and multiples(c, j) has
//                 the whole-number scales of the two 16s
//   minima(c, m)  what each weight of the eight 32s has too much (Q4_K)

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

// 16 bytes of two 4-bit levels each: the low halves and the high halves.
struct Nibbles {
  uint8x16_t low, high;
};
TROIKA_INLINE inline Nibbles nibbles(const std::byte* p) {
  const uint8x16_t pairs = load_16(p);
  return {vandq_u8(pairs, vdupq_n_u8(15)), vshrq_n_u8(pairs, 4)};
}

TROIKA_INLINE inline Levels without_offset(uint8x16_t first, uint8x16_t second, int8_t offset) {
  return {{vsubq_s8(vreinterpretq_s8_u8(first), vdupq_n_s8(offset)),
           vsubq_s8(vreinterpretq_s8_u8(second), vdupq_n_s8(offset))}};
}

struct TileQ4_0 {
  static constexpr size_t kBytes = 8 * 18, kBlock = 32;
  static constexpr bool kHasMultiples = false, kHasMinima = false;

  static void scales(const std::byte* c, float* s) { eight_scales<18>(c, s); }
  static Levels levels(const std::byte* c, int j) {
    const Nibbles n = nibbles(c + 18 * j + 2);
    return without_offset(n.low, n.high, 8);
  }
};

struct TileQ5_0 {
  static constexpr size_t kBytes = 8 * 22, kBlock = 32;
  static constexpr bool kHasMultiples = false, kHasMinima = false;

  static void scales(const std::byte* c, float* s) { eight_scales<22>(c, s); }
  // The 16 top bits of `bits`, as 16 or 0 for each level.
  static uint8x16_t top_bits(const std::byte* bits) {
    static constexpr uint8_t kWanted[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                            1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t spread =
        vcombine_u8(vdup_n_u8(load_word<uint8_t>(bits)), vdup_n_u8(load_word<uint8_t>(bits + 1)));
    return vandq_u8(vtstq_u8(spread, vld1q_u8(kWanted)), vdupq_n_u8(16));
  }
  static Levels levels(const std::byte* c, int j) {
    const std::byte* block = c + 22 * j;
    const Nibbles n = nibbles(block + 6);
    return without_offset(vorrq_u8(n.low, top_bits(block + 2)),
                          vorrq_u8(n.high, top_bits(block + 4)), 16);
  }
};

struct TileQ8_0 {
  static constexpr size_t kBytes = 8 * 34, kBlock = 32;
  static constexpr bool kHasMultiples = false, kHasMinima = false;

  static void scales(const std::byte* c, float* s) { eight_scales<34>(c, s); }
  static Levels levels(const std::byte* c, int j) {
    return {{vreinterpretq_s8_u8(load_16(c + 34 * j + 2)),
             vreinterpretq_s8_u8(load_16(c + 34 * j + 18))}};
  }
};

struct TileQ4_K {
  static constexpr size_t kBytes = 144, kBlock = 256;
  static constexpr bool kHasMultiples = false, kHasMinima = true;

  static void scaled(const std::byte* half, uint32_t low, uint32_t high, float* y) {
    const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
    const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
    const float factor = V::f16(half);
    vst1q_f32(y, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(words))), factor));
    vst1q_f32(y + 4, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_high_u16(words))), factor));
  }
  // The packing is described in tensor/q4_k.h; here four groups at a time.
  static void scales(const std::byte* c, float* s) {
    const auto a = load_word<uint32_t>(c + 4), b = load_word<uint32_t>(c + 12);
    scaled(c, a & 0x3f3f3f3f, (b & 0x0f0f0f0f) | (a >> 2 & 0x30303030), s);
  }
  static void minima(const std::byte* c, float* m) {
    const auto a = load_word<uint32_t>(c + 8), b = load_word<uint32_t>(c + 12);
    scaled(c + 2, a & 0x3f3f3f3f, (b >> 4 & 0x0f0f0f0f) | (a >> 2 & 0x30303030), m);
  }
  static Levels levels(const std::byte* c, int j) {
    const Nibbles first = nibbles(c + 16 + j / 2 * 32), second = nibbles(c + 32 + j / 2 * 32);
    return j % 2 == 0 ? without_offset(first.low, second.low, 0)
                      : without_offset(first.high, second.high, 0);
  }
};

struct TileQ6_K {
  static constexpr size_t kBytes = 210, kBlock = 256;
  static constexpr bool kHasMultiples = true, kHasMinima = false;

  static void scales(const std::byte* c, float* s) {
    vst1q_f32(s, vdupq_n_f32(V::f16(c + 208)));
    vst1q_f32(s + 4, vld1q_f32(s));
  }
  static int multiple(const std::byte* c, int group) { return load_word<int8_t>(c + 192 + group); }
  template <int kQuarter>
  static uint8x16_t level_bits(const std::byte* low, const std::byte* high) {
    const uint8x16_t pairs = load_16(low);
    const uint8x16_t low_bits =
        kQuarter < 2 ? vandq_u8(pairs, vdupq_n_u8(15)) : vshrq_n_u8(pairs, 4);
    const uint8x16_t packed = vshlq_u8(load_16(high), vdupq_n_s8(4 - 2 * kQuarter));
    return vorrq_u8(low_bits, vandq_u8(packed, vdupq_n_u8(0x30)));
  }
  template <int kIndex>
  static Levels levels(const std::byte* c, std::integral_constant<int, kIndex>) {
    constexpr int kQuarter = kIndex % 4;
    const std::byte* low = c + kIndex / 4 * 64 + kQuarter % 2 * 32;
    const std::byte* high = c + 128 + kIndex / 4 * 32;
    return without_offset(level_bits<kQuarter>(low, high),
                          level_bits<kQuarter>(low + 16, high + 16), 32);
  }
};
