// The functions that simd/unpack_strips.inl needs, with NEON. After words_neon.inl.

// Returns whether no value is an infinity or not-a-number.
TROIKA_INLINE inline bool are_finite(Floats a, Floats b) {
  const Floats infinity = vdupq_n_f32(__builtin_inff());
  const Words of_a = vcltq_f32(V::magnitude(a), infinity);
  const Words of_b = vcltq_f32(V::magnitude(b), infinity);
  return vminvq_u32(of_a & of_b) != 0;
}
// Rounds both numbers of each element and puts them into its two halves.
TROIKA_INLINE inline Words pairs_of_bf16(Floats first, Floats second) {
  return vsriq_n_u32(V::rounded_to_bf16(second), V::rounded_to_bf16(first), 16);
}
