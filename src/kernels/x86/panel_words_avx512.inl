// The functions that simd/unpack_strips.inl needs, with AVX-512. Needs bf16_of, as
// unpack_avx512.inl does.

// Returns whether no value is an infinity or not-a-number.
TROIKA_INLINE inline bool are_finite(Floats a, Floats b) {
  constexpr int kInfinityOrNan = 0x99;
  return (_mm512_fpclass_ps_mask(a, kInfinityOrNan) | _mm512_fpclass_ps_mask(b, kInfinityOrNan)) ==
         0;
}
// Rounds both numbers of each element and puts them into its two halves.
TROIKA_INLINE inline Words pairs_of_bf16(Floats first, Floats second) {
  const Words order =
      _mm512_setr_epi32(0x00100000, 0x00110001, 0x00120002, 0x00130003, 0x00140004, 0x00150005,
                        0x00160006, 0x00170007, 0x00180008, 0x00190009, 0x001a000a, 0x001b000b,
                        0x001c000c, 0x001d000d, 0x001e000e, 0x001f000f);
  return _mm512_permutexvar_epi16(order, bf16_of(first, second));
}
