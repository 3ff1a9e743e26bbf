// The functions that simd/unpack_strips.inl needs, with AVX2. After words_avx2.inl.

// Returns whether no value is an infinity or not-a-number.
TROIKA_INLINE inline bool are_finite(Floats a, Floats b) {
  const Floats infinity = _mm256_set1_ps(__builtin_inff());
  const Floats of_a = _mm256_cmp_ps(V::magnitude(a), infinity, _CMP_LT_OQ);
  const Floats of_b = _mm256_cmp_ps(V::magnitude(b), infinity, _CMP_LT_OQ);
  return _mm256_movemask_ps(_mm256_and_ps(of_a, of_b)) == 0xff;
}
// Rounds both numbers of each element and puts them into its two halves.
TROIKA_INLINE inline Words pairs_of_bf16(Floats first, Floats second) {
  return _mm256_srli_epi32(V::rounded_to_bf16(first), 16) |
         (V::rounded_to_bf16(second) & _mm256_set1_epi32(static_cast<int>(0xffff0000)));
}
