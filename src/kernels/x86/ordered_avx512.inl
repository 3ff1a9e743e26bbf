// How each block format gives its levels to AVX-512 in the order of the row, 64 at a time and
// always unsigned: what unpacking needs, where sums do not care. The rest is that of
// formats_avx2.inl; added here is
//   levels(c, j)  the j-th 64 levels of a super-block

// Unpacks two blocks of 16 bytes, each as the low halves of its bytes and then the high halves.
TROIKA_INLINE inline __m512i two_nibbles_in_order(const std::byte* first, const std::byte* second) {
  const __m512i pairs =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastsi128_si256(load_16(first))),
                         _mm256_broadcastsi128_si256(load_16(second)), 1);
  // The second and fourth quarter move down by four bits.
  const __m512i moved = _mm512_mask_srli_epi16(pairs, 0xff00ff00, pairs, 4);
  return _mm512_and_si512(moved, _mm512_set1_epi8(15));
}

TROIKA_INLINE inline __m512i join_halves(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

template <Type kType>
struct Ordered : Format<kType> {
  using Base = Format<kType>;
  static constexpr int kOffset = Base::kSigned ? 128 : Base::kOffset;
  static constexpr bool kSigned = false;
  static __m512i levels(const std::byte* c, int j) {
    const __m512i both = join_halves(Base::levels(c, 2 * j), Base::levels(c, 2 * j + 1));
    if constexpr (!Base::kSigned) return both;
    return _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
};

// The formats below put their levels in order in fewer steps.
template <>
struct Ordered<Type::kQ4_0> : Format<Type::kQ4_0> {
  static __m512i levels(const std::byte* c, int j) {
    return two_nibbles_in_order(c + 36 * j + 2, c + 36 * j + 20);
  }
};

template <>
struct Ordered<Type::kQ5_0> : Format<Type::kQ5_0> {
  static __m512i levels(const std::byte* c, int j) {
    const std::byte* block = c + 44 * j;
    const uint64_t top_bits = load_word<uint32_t>(block + 2) |
                              static_cast<uint64_t>(load_word<uint32_t>(block + 24)) << 32;
    const __m512i low = two_nibbles_in_order(block + 6, block + 28);
    return _mm512_mask_add_epi8(low, top_bits, low, _mm512_set1_epi8(16));
  }
};

template <>
struct Ordered<Type::kQ4_K> : Format<Type::kQ4_K> {
  static __m512i levels(const std::byte* c, int j) {
    const __m256i pairs = load_32(c + 16 + 32 * j);
    return _mm512_and_si512(join_halves(pairs, _mm256_srli_epi16(pairs, 4)), _mm512_set1_epi8(15));
  }
};

template <>
struct Ordered<Type::kQ6_K> : Format<Type::kQ6_K> {
  // 64 levels are two quarters of a half: the low bits lie side by side, the high bits in the same
  // 32 bytes.
  static __m512i levels(const std::byte* c, int j) {
    const int half = j / 2, upper = j % 2;
    __m512i low = _mm512_loadu_si512(c + 64 * half);
    if (upper == 1) low = _mm512_srli_epi16(low, 4);
    const __m256i packed = load_32(c + 128 + 32 * half);
    const __m512i high =
        upper == 0 ? join_halves(_mm256_slli_epi16(packed, 4), _mm256_slli_epi16(packed, 2))
                   : join_halves(packed, _mm256_srli_epi16(packed, 2));
    // Each byte gets its low four bits from `low`, the next two from `high`.
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, 0xca);
    return _mm512_and_si512(both, _mm512_set1_epi8(0x3f));
  }
};
