// The instructions of NEON under the names that simd/math.inl asks for.

// Holds, for each number of 4 bits, which of its bits are 1, in ascending order; 0 fills the rest.
struct PlacesOfOnes {
  alignas(16) uint32_t places[16][4] = {};

  constexpr PlacesOfOnes() {
    for (unsigned bits = 0; bits < 16; ++bits) {
      size_t n = 0;
      for (unsigned i = 0; i < 4; ++i) {
        if ((bits >> i & 1) != 0) places[bits][n++] = i;
      }
    }
  }
};
constexpr PlacesOfOnes kPlacesOfOnes;

struct V {
  using F = float32x4_t;
  static constexpr size_t kElements = 4;
  static constexpr int kRegisters = 32;

  static F zero() { return vdupq_n_f32(0); }
  static F set(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F v) { vst1q_f32(p, v); }
  static F load_part(const float* p, size_t n) {
    float elements[4] = {};
    std::memcpy(elements, p, n * sizeof(float));
    return vld1q_f32(elements);
  }
  static void store_part(float* p, F v, size_t n) {
    float elements[4];
    vst1q_f32(elements, v);
    std::memcpy(p, elements, n * sizeof(float));
  }

  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  // Where one operand is not a number the second one is returned, as on x86; NEON's own instruction
  // would return the one that is not a number.
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F where_above(F a, F b, F then, F otherwise) {
    return vbslq_f32(vcgtq_f32(a, b), then, otherwise);
  }
  using Counts = uint32x4_t;
  static Counts count_above(Counts counts, F a, F b) { return vsubq_u32(counts, vcgtq_f32(a, b)); }
  static size_t total(const Counts (&counts)[4]) {
    return vaddvq_u32(vaddq_u32(vaddq_u32(counts[0], counts[1]), vaddq_u32(counts[2], counts[3])));
  }
  static size_t store_indices_above(uint32_t* p, uint32_t first, F a, F b) {
    constexpr uint32_t kBits[4] = {1, 2, 4, 8};
    const uint32_t bits = vaddvq_u32(vandq_u32(vcgtq_f32(a, b), vld1q_u32(kBits)));
    vst1q_u32(p, vaddq_u32(vld1q_u32(kPlacesOfOnes.places[bits]), vdupq_n_u32(first)));
    return static_cast<size_t>(__builtin_popcount(bits));
  }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F round(F a) { return vrndnq_f32(a); }
  static F power_of_two(F n) {
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
  }
  static float sum(F v) { return vaddvq_f32(v); }
  static void store_sums(float* p, const F (&v)[4]) {
    vst1q_f32(p, vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
  }
  static float largest(F v) {
    float elements[4];
    vst1q_f32(elements, v);
    float best = elements[0];
    for (int i = 1; i < 4; ++i) best = elements[i] > best ? elements[i] : best;
    return best;
  }

  static F load_f16(const std::byte* p) {
    uint16x4_t half;
    std::memcpy(&half, p, sizeof(half));
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
  }
  static F load_bf16(const std::byte* p) {
    uint16x4_t half;
    std::memcpy(&half, p, sizeof(half));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(half), 16));
  }
  static F load_i8(const std::byte* p) {
    int8x8_t bytes = vdup_n_s8(0);
    std::memcpy(&bytes, p, 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  // Loads 4 bytes: the lower and the upper half of each, less kOffset.
  template <int kOffset>
  static void load_nibbles(const std::byte* p, F* low, F* high) {
    uint8x8_t packed = vdup_n_u8(0);
    std::memcpy(&packed, p, 4);
    const int32x4_t offset = vdupq_n_s32(kOffset);
    const uint32x4_t bytes = vmovl_u16(vget_low_u16(vmovl_u8(packed)));
    const int32x4_t lower = vreinterpretq_s32_u32(vandq_u32(bytes, vdupq_n_u32(15)));
    const int32x4_t upper = vreinterpretq_s32_u32(vshrq_n_u32(bytes, 4));
    *low = vcvtq_f32_s32(vsubq_s32(lower, offset));
    *high = vcvtq_f32_s32(vsubq_s32(upper, offset));
  }
  static float f16(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
  }

  // Replaces what is not a number by 0.
  static F numbers(F v) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vceqq_f32(v, v)));
  }
  static F magnitude(F v) { return vabsq_f32(v); }
  // Stores whole numbers -128 .. 127 as bytes, with 128 added.
  static void store_offset_i8(uint8_t* p, F v) {
    const int32x4_t whole = vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(128));
    const uint16x4_t words = vmovn_u32(vreinterpretq_u32_s32(whole));
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
    std::memcpy(p, &bytes, 4);
  }
  // Rounds to nearest, ties to even; the results are the upper halves. What is not a number stays
  // so.
  static uint32x4_t rounded_to_bf16(F v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(v, v), up, quiet);
  }
  static void store_bf16(uint16_t* p, F v) { vst1_u16(p, vshrn_n_u32(rounded_to_bf16(v), 16)); }
  // Returns the first and second halves of kElements pairs, and of one pair for all elements.
  static F even_of_pairs(const uint16_t* p) {
    const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(p));
    return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
  }
  static F odd_of_pairs(const uint16_t* p) {
    const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(p));
    return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
  }
  static F even_of_pair(uint32_t pair) { return vreinterpretq_f32_u32(vdupq_n_u32(pair << 16)); }
  static F odd_of_pair(uint32_t pair) {
    return vreinterpretq_f32_u32(vdupq_n_u32(pair & 0xffff0000u));
  }
};
