// What several products with AVX-512 VNNI share.

// Adds four products of unsigned bytes x and signed bytes w to each element. Written in assembly
// because g++ 12 otherwise copies every sum to memory and back, which halves the speed.
TROIKA_INLINE inline void add_fours(__m512i& sum, __m512i x, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}

// Transposes 16 vectors of 16 elements: element j of vector i goes to element i of vector j.
TROIKA_INLINE inline void turn_around(__m512i (&v)[16]) {
  __m512i u[16];
  unrolled<8>([&](auto i) TROIKA_INLINE {
    u[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    u[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  });
  unrolled<4>([&](auto i) TROIKA_INLINE {
    v[4 * i] = _mm512_unpacklo_epi64(u[4 * i], u[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(u[4 * i], u[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(u[4 * i + 1], u[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(u[4 * i + 1], u[4 * i + 3]);
  });
  unrolled<4>([&](auto i) TROIKA_INLINE {
    u[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
    u[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
    u[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
    u[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
  });
  unrolled<4>([&](auto i) TROIKA_INLINE {
    v[i] = _mm512_shuffle_i32x4(u[i], u[8 + i], 0x88);
    v[4 + i] = _mm512_shuffle_i32x4(u[4 + i], u[12 + i], 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(u[i], u[8 + i], 0xdd);
    v[12 + i] = _mm512_shuffle_i32x4(u[4 + i], u[12 + i], 0xdd);
  });
}
