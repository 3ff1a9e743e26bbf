// Vectors of the sixteen rows of a strip with AVX-512, as simd/strips.inl asks for them. After
// formats_avx2.inl and ordered_avx512.inl.

using Words = __m512i;
using Floats = __m512;
constexpr size_t kWordRows = 16;

template <Type kType>
using StripLevels = Ordered<kType>;

TROIKA_INLINE inline Words load_words(const std::byte* p) { return _mm512_loadu_si512(p); }
TROIKA_INLINE inline Words load_shorts(const std::byte* p) {
  return _mm512_cvtepu16_epi32(load_32(p));
}
TROIKA_INLINE inline Words load_bytes(const std::byte* p) {
  return _mm512_cvtepu8_epi32(load_16(p));
}
TROIKA_INLINE inline Floats load_halves(const std::byte* p) { return _mm512_cvtph_ps(load_32(p)); }
TROIKA_INLINE inline void store_words(void* p, Words v) { _mm512_storeu_si512(p, v); }
// Converts the half float in the lower two bytes of each element.
TROIKA_INLINE inline Floats floats_of_halves(Words words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}

TROIKA_INLINE inline Words splat_bytes(int byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}
TROIKA_INLINE inline Words splat_words(uint32_t word) {
  return _mm512_set1_epi32(static_cast<int>(word));
}
template <int kBits>
TROIKA_INLINE inline Words down_16(Words v) {
  return _mm512_srli_epi16(v, kBits);
}
// Shifts each byte by itself.
template <int kBits>
TROIKA_INLINE inline Words down_8(Words v) {
  return down_16<kBits>(v) & splat_bytes(255 >> kBits);
}
template <int kBits>
TROIKA_INLINE inline Words up_16(Words v) {
  return _mm512_slli_epi16(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words down_32(Words v) {
  return _mm512_srli_epi32(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words signed_down_32(Words v) {
  return _mm512_srai_epi32(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words up_32(Words v) {
  return _mm512_slli_epi32(v, kBits);
}
TROIKA_INLINE inline Words less_words(Words a, Words b) { return _mm512_sub_epi32(a, b); }
TROIKA_INLINE inline Words more_words(Words a, Words b) { return _mm512_add_epi32(a, b); }
TROIKA_INLINE inline Words less_bytes(Words a, Words b) { return _mm512_sub_epi8(a, b); }

// Returns byte kByte of each element, four times.
template <int kByte>
TROIKA_INLINE inline Words spread_byte(Words words) {
  constexpr int kFour = kByte * 0x01010101;
  const Words order = _mm512_broadcast_i32x4(
      _mm_setr_epi32(kFour, kFour + 0x04040404, kFour + 0x08080808, kFour + 0x0c0c0c0c));
  return _mm512_shuffle_epi8(words, order);
}
// Adds kValue to the bytes in which the bit of `wanted` is set.
template <int kValue>
TROIKA_INLINE inline Words add_where(Words bytes, Words bits, Words wanted) {
  return _mm512_mask_add_epi8(bytes, _mm512_test_epi8_mask(bits, wanted), bytes,
                              splat_bytes(kValue));
}
// Looks up levels of a codebook, with 128 added.
template <int kOffset>
TROIKA_INLINE inline Words coded(const int8_t* codebook, Words codes) {
  static_assert(kOffset == 128);
  const Words levels =
      _mm512_broadcast_i32x4(load_16(reinterpret_cast<const std::byte*>(codebook)));
  return _mm512_shuffle_epi8(levels, codes) ^ splat_bytes(0x80);
}

TROIKA_INLINE inline Floats floats_of(Words whole) { return _mm512_cvtepi32_ps(whole); }
TROIKA_INLINE inline Words nearest(Floats v) { return _mm512_cvtps_epi32(v); }
TROIKA_INLINE inline Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
TROIKA_INLINE inline Floats less(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
TROIKA_INLINE inline Floats negated(Floats v) { return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f)); }
// Returns halves of powers of two, as Format<kMXFP4> does.
TROIKA_INLINE inline Floats floats_of_exponents(Words exponents) {
  const Words normal = _mm512_slli_epi32(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)), 23);
  const Words least = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), exponents);
  const __mmask16 is_least = _mm512_cmplt_epi32_mask(exponents, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_least, least));
}
