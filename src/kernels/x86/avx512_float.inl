// The instructions of AVX-512 under the names that simd/math.inl asks for.

struct V {
  using F = __m512;
  static constexpr size_t kElements = 16;
  static constexpr int kRegisters = 32;

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static __mmask16 first_elements(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  static F load_part(const float* p, size_t n) {
    return _mm512_maskz_loadu_ps(first_elements(n), p);
  }
  static void store_part(float* p, F v, size_t n) {
    _mm512_mask_storeu_ps(p, first_elements(n), v);
  }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F where_above(F a, F b, F then, F otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), otherwise, then);
  }
  using Counts = __m512i;
  static Counts count_above(Counts counts, F a, F b) {
    const __m512i one = _mm512_set1_epi32(1);
    return _mm512_mask_add_epi32(counts, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), counts, one);
  }
  static size_t total(const Counts (&counts)[4]) {
    const __m512i sums = _mm512_add_epi32(_mm512_add_epi32(counts[0], counts[1]),
                                          _mm512_add_epi32(counts[2], counts[3]));
    uint32_t elements[16];
    _mm512_storeu_si512(elements, sums);
    size_t sum = 0;
    for (const uint32_t element : elements) sum += element;
    return sum;
  }
  // The indices are brought together in a register: processors take long to do so in memory.
  static size_t store_indices_above(uint32_t* p, uint32_t first, F a, F b) {
    const __mmask16 bits = _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
    const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i indices = _mm512_add_epi32(places, _mm512_set1_epi32(static_cast<int>(first)));
    _mm512_storeu_si512(p, _mm512_maskz_compress_epi32(bits, indices));
    return static_cast<size_t>(__builtin_popcount(bits));
  }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F power_of_two(F n) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  static float sum(F v) {
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static void store_sums(float* p, const F (&v)[4]) {
    const F ab = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const F cd = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    // Now each quarter has a, b, a, b and c, d, c, d.
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const F abcd = add(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  static float largest(F v) {
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

  static F load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16(const std::byte* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static F load_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  // Loads 16 bytes: the lower and the upper half of each, less kOffset.
  template <int kOffset>
  static void load_nibbles(const std::byte* p, F* low, F* high) {
    constexpr float kFirst = -kOffset;
    const F values =
        _mm512_setr_ps(kFirst, kFirst + 1, kFirst + 2, kFirst + 3, kFirst + 4, kFirst + 5,
                       kFirst + 6, kFirst + 7, kFirst + 8, kFirst + 9, kFirst + 10, kFirst + 11,
                       kFirst + 12, kFirst + 13, kFirst + 14, kFirst + 15);
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i bytes = _mm512_cvtepu8_epi32(packed);
    *low = _mm512_permutexvar_ps(bytes, values);  // looks up the lowest 4 bits
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values);
  }
  static float f16(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return _cvtsh_ss(half);
  }

  // Replaces what is not a number by 0.
  static F numbers(F v) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v); }
  static F magnitude(F v) { return _mm512_abs_ps(v); }
  // Stores whole numbers -128 .. 127 as bytes, with 128 added.
  static void store_offset_i8(uint8_t* p, F v) {
    const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(128));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(whole));
  }
  // Rounds to nearest, ties to even. What is not a number stays so.
  static __m256i bf16(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_set1_epi32(0x400000);
    return _mm512_cvtepi32_epi16(
        _mm512_srli_epi32(_mm512_mask_or_epi32(up, is_nan, bits, quiet), 16));
  }
  static void store_bf16(uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bf16(v));
  }
  // Returns the first and second halves of kElements pairs, and of one pair for all elements.
  static F even_of_pairs(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static F odd_of_pairs(const uint16_t* p) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high));
  }
  static F even_of_pair(uint32_t pair) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(pair << 16)));
  }
  static F odd_of_pair(uint32_t pair) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(pair & 0xffff0000)));
  }
};
