// Vectors of four rows of a strip with NEON, as simd/strips.inl asks for them. After
// formats_neon.inl.

using Words = uint32x4_t;
using Floats = float32x4_t;
constexpr size_t kWordRows = 4;

// Levels of a format as strips have them. NEON multiplies signed bytes, which all levels are. What
// levels have too much is taken away from sums, because these are fewer.
template <Type kType>
using StripLevels = Format<kType>;

TROIKA_INLINE inline Words load_words(const std::byte* p) {
  return vreinterpretq_u32_u8(load_16(p));
}
TROIKA_INLINE inline Words load_shorts(const std::byte* p) {
  return vmovl_u16(vcreate_u16(load_word<uint64_t>(p)));
}
TROIKA_INLINE inline Words load_bytes(const std::byte* p) {
  return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(load_word<uint32_t>(p)))));
}
TROIKA_INLINE inline Floats load_halves(const std::byte* p) { return V::load_f16(p); }
TROIKA_INLINE inline void store_words(void* p, Words v) { vst1q_u32(static_cast<uint32_t*>(p), v); }
// Converts the half float in the lower two bytes of each element.
TROIKA_INLINE inline Floats floats_of_halves(Words words) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(words)));
}

TROIKA_INLINE inline Words splat_bytes(int byte) {
  return vreinterpretq_u32_u8(vdupq_n_u8(static_cast<uint8_t>(byte)));
}
TROIKA_INLINE inline Words splat_words(uint32_t word) { return vdupq_n_u32(word); }

template <int kBits>
TROIKA_INLINE inline Words down_8(Words v) {
  return vreinterpretq_u32_u8(vshrq_n_u8(vreinterpretq_u8_u32(v), kBits));
}
// NEON has no shift by 0 bits, so such a shift returns its input. down_32 does the same.
template <int kBits>
TROIKA_INLINE inline Words down_16(Words v) {
  if constexpr (kBits == 0) {
    return v;
  } else {
    return vreinterpretq_u32_u16(vshrq_n_u16(vreinterpretq_u16_u32(v), kBits));
  }
}
template <int kBits>
TROIKA_INLINE inline Words up_16(Words v) {
  return vreinterpretq_u32_u16(vshlq_n_u16(vreinterpretq_u16_u32(v), kBits));
}
template <int kBits>
TROIKA_INLINE inline Words down_32(Words v) {
  if constexpr (kBits == 0) {
    return v;
  } else {
    return vshrq_n_u32(v, kBits);
  }
}
template <int kBits>
TROIKA_INLINE inline Words signed_down_32(Words v) {
  return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(v), kBits));
}
template <int kBits>
TROIKA_INLINE inline Words up_32(Words v) {
  return vshlq_n_u32(v, kBits);
}
TROIKA_INLINE inline Words less_words(Words a, Words b) { return vsubq_u32(a, b); }
TROIKA_INLINE inline Words more_words(Words a, Words b) { return vaddq_u32(a, b); }
TROIKA_INLINE inline Words less_bytes(Words a, Words b) {
  return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
}

// Returns byte kByte of each element, four times.
template <int kByte>
TROIKA_INLINE inline Words spread_byte(Words words) {
  static constexpr uint32_t kFour = kByte * 0x01010101u;
  static constexpr uint32_t kOrder[4] = {kFour, kFour + 0x04040404u, kFour + 0x08080808u,
                                         kFour + 0x0c0c0c0cu};
  const uint8x16_t order = vreinterpretq_u8_u32(vld1q_u32(kOrder));
  return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(words), order));
}
// Adds kValue to the bytes in which the bit of `wanted` is set.
template <int kValue>
TROIKA_INLINE inline Words add_where(Words bytes, Words bits, Words wanted) {
  const uint8x16_t is_set = vtstq_u8(vreinterpretq_u8_u32(bits), vreinterpretq_u8_u32(wanted));
  return bytes | (vreinterpretq_u32_u8(is_set) & splat_bytes(kValue));
}
// Looks up levels of a codebook.
template <int kOffset>
TROIKA_INLINE inline Words coded(const int8_t* codebook, Words codes) {
  static_assert(kOffset == 0);
  return vreinterpretq_u32_s8(vqtbl1q_s8(vld1q_s8(codebook), vreinterpretq_u8_u32(codes)));
}

TROIKA_INLINE inline Floats floats_of(Words whole) {
  return vcvtq_f32_s32(vreinterpretq_s32_u32(whole));
}
TROIKA_INLINE inline Words nearest(Floats v) { return vreinterpretq_u32_s32(vcvtnq_s32_f32(v)); }
TROIKA_INLINE inline Floats times(Floats a, Floats b) { return vmulq_f32(a, b); }
TROIKA_INLINE inline Floats less(Floats a, Floats b) { return vsubq_f32(a, b); }
TROIKA_INLINE inline Floats negated(Floats v) { return vnegq_f32(v); }
// Returns halves of powers of two; the two least are subnormal (tensor/mxfp4.h).
TROIKA_INLINE inline Floats floats_of_exponents(Words exponents) {
  const Words normal = vshlq_n_u32(vsubq_u32(exponents, vdupq_n_u32(1)), 23);
  const Words least = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(exponents));
  const Words is_least = vcltq_u32(exponents, vdupq_n_u32(2));
  return vreinterpretq_f32_u32(vbslq_u32(is_least, least, normal));
}
