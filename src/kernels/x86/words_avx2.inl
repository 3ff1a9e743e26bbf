// Vectors of eight rows of a strip with AVX2, as simd/strips.inl asks for them. After
// formats_avx2.inl.

using Words = __m256i;
using Floats = __m256;
constexpr size_t kWordRows = 8;

// Levels of a format as strips have them. Codebooks of bytes take an offset of 128; that of tiny
// floats has nothing below -12.
template <Type kType>
struct StripLevels : Format<kType> {
  using Base = Format<kType>;
  static constexpr int kOffset = kType == Type::kMXFP4 ? 12 : Base::kSigned ? 128 : Base::kOffset;
  static constexpr bool kSigned = false;
  // No level is larger than this.
  static constexpr int kMost =
      kType == Type::kQ2_K                                                   ? 3
      : kType == Type::kQ3_K                                                 ? 7
      : kType == Type::kQ6_K                                                 ? 63
      : kType == Type::kMXFP4                                                ? 24
      : Base::kSigned                                                        ? 255
      : kType == Type::kQ5_0 || kType == Type::kQ5_1 || kType == Type::kQ5_K ? 31
                                                                             : 15;
};

TROIKA_INLINE inline Words load_words(const std::byte* p) { return load_32(p); }
TROIKA_INLINE inline Words load_shorts(const std::byte* p) {
  return _mm256_cvtepu16_epi32(load_16(p));
}
TROIKA_INLINE inline Words load_bytes(const std::byte* p) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(load_word<int64_t>(p)));
}
TROIKA_INLINE inline Floats load_halves(const std::byte* p) { return _mm256_cvtph_ps(load_16(p)); }
TROIKA_INLINE inline void store_words(void* p, Words v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
// Converts the half float in the lower two bytes of each element.
TROIKA_INLINE inline Floats floats_of_halves(Words words) {
  return _mm256_cvtph_ps(V::low_halves(words & _mm256_set1_epi32(0xffff)));
}

TROIKA_INLINE inline Words splat_bytes(int byte) {
  return _mm256_set1_epi8(static_cast<char>(byte));
}
TROIKA_INLINE inline Words splat_words(uint32_t word) {
  return _mm256_set1_epi32(static_cast<int>(word));
}
template <int kBits>
TROIKA_INLINE inline Words down_16(Words v) {
  return _mm256_srli_epi16(v, kBits);
}
// Shifts each byte by itself.
template <int kBits>
TROIKA_INLINE inline Words down_8(Words v) {
  return down_16<kBits>(v) & splat_bytes(255 >> kBits);
}
template <int kBits>
TROIKA_INLINE inline Words up_16(Words v) {
  return _mm256_slli_epi16(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words down_32(Words v) {
  return _mm256_srli_epi32(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words signed_down_32(Words v) {
  return _mm256_srai_epi32(v, kBits);
}
template <int kBits>
TROIKA_INLINE inline Words up_32(Words v) {
  return _mm256_slli_epi32(v, kBits);
}
TROIKA_INLINE inline Words less_words(Words a, Words b) { return _mm256_sub_epi32(a, b); }
TROIKA_INLINE inline Words more_words(Words a, Words b) { return _mm256_add_epi32(a, b); }
TROIKA_INLINE inline Words less_bytes(Words a, Words b) { return _mm256_sub_epi8(a, b); }

// Returns byte kByte of each element, four times.
template <int kByte>
TROIKA_INLINE inline Words spread_byte(Words words) {
  constexpr int kFour = kByte * 0x01010101;
  const Words order = _mm256_broadcastsi128_si256(
      _mm_setr_epi32(kFour, kFour + 0x04040404, kFour + 0x08080808, kFour + 0x0c0c0c0c));
  return _mm256_shuffle_epi8(words, order);
}
// Adds kValue to the bytes in which the bit of `wanted` is set.
template <int kValue>
TROIKA_INLINE inline Words add_where(Words bytes, Words bits, Words wanted) {
  const Words is_set = _mm256_cmpeq_epi8(bits & wanted, wanted);
  return bytes | (is_set & splat_bytes(kValue));
}
// Looks up levels of a codebook, with kOffset added.
template <int kOffset>
TROIKA_INLINE inline Words coded(const int8_t* codebook, Words codes) {
  const __m128i levels = load_16(reinterpret_cast<const std::byte*>(codebook));
  const __m128i above_zero = _mm_add_epi8(levels, _mm_set1_epi8(static_cast<char>(kOffset)));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(above_zero), codes);
}

TROIKA_INLINE inline Floats floats_of(Words whole) { return _mm256_cvtepi32_ps(whole); }
TROIKA_INLINE inline Words nearest(Floats v) { return _mm256_cvtps_epi32(v); }
TROIKA_INLINE inline Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
TROIKA_INLINE inline Floats less(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
TROIKA_INLINE inline Floats negated(Floats v) { return minus(v); }
