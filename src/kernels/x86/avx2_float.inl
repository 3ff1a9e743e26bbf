// The instructions of AVX2 under the names that simd/math.inl asks for.

// Holds, for each number of 8 bits, which of its bits are 1, in ascending order; 0 fills the rest.
struct PlacesOfOnes {
  alignas(64) uint8_t places[256][8] = {};

  constexpr PlacesOfOnes() {
    for (unsigned bits = 0; bits < 256; ++bits) {
      size_t n = 0;
      for (unsigned i = 0; i < 8; ++i) {
        if ((bits >> i & 1) != 0) places[bits][n++] = static_cast<uint8_t>(i);
      }
    }
  }
};
constexpr PlacesOfOnes kPlacesOfOnes;

struct V {
  using F = __m256;
  static constexpr size_t kElements = 8;
  static constexpr int kRegisters = 16;

  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static __m256i first_elements(size_t n) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), index);
  }
  static F load_part(const float* p, size_t n) { return _mm256_maskload_ps(p, first_elements(n)); }
  static void store_part(float* p, F v, size_t n) { _mm256_maskstore_ps(p, first_elements(n), v); }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F where_above(F a, F b, F then, F otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
  }
  using Counts = __m256i;
  static Counts count_above(Counts counts, F a, F b) {
    return _mm256_sub_epi32(counts, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
  }
  static size_t total(const Counts (&counts)[4]) {
    const __m256i eight = _mm256_add_epi32(_mm256_add_epi32(counts[0], counts[1]),
                                           _mm256_add_epi32(counts[2], counts[3]));
    uint32_t elements[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(elements), eight);
    size_t sum = 0;
    for (const uint32_t element : elements) sum += element;
    return sum;
  }
  static size_t store_indices_above(uint32_t* p, uint32_t first, F a, F b) {
    const auto bits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
    const auto* const places = reinterpret_cast<const __m128i*>(kPlacesOfOnes.places[bits]);
    const __m256i indices = _mm256_add_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(places)),
                                             _mm256_set1_epi32(static_cast<int>(first)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), indices);
    return static_cast<size_t>(__builtin_popcount(bits));
  }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F power_of_two(F n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  static float sum(F v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static void store_sums(float* p, const F (&v)[4]) {
    const F abcd = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
  }
  static float largest(F v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

  static F load_f16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_bf16(const std::byte* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static F load_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  // Loads 8 bytes: the lower and the upper half of each, less kOffset.
  template <int kOffset>
  static void load_nibbles(const std::byte* p, F* low, F* high) {
    const __m256i offset = _mm256_set1_epi32(kOffset);
    const __m256i bytes =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m256i lower = _mm256_and_si256(bytes, _mm256_set1_epi32(15));
    *low = _mm256_cvtepi32_ps(_mm256_sub_epi32(lower, offset));
    *high = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bytes, 4), offset));
  }
  static float f16(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return _cvtsh_ss(half);
  }

  // Replaces what is not a number by 0.
  static F numbers(F v) { return _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)); }
  static F magnitude(F v) {
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
  }
  // Packs eight whole numbers up to 65535: of each 16 bits the lower 8 remain.
  static __m128i low_halves(__m256i whole) {
    return _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  }
  // Stores whole numbers -128 .. 127 as bytes, with 128 added.
  static void store_offset_i8(uint8_t* p, F v) {
    const __m128i words =
        low_halves(_mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(128)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
  }
  // Rounds to nearest, ties to even; the results are the upper halves. What is not a number stays
  // so.
  static __m256i rounded_to_bf16(F v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(up, quiet, is_nan);
  }
  static void store_bf16(uint16_t* p, F v) {
    const __m128i upper = low_halves(_mm256_srli_epi32(rounded_to_bf16(v), 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), upper);
  }
  // Returns the first and second halves of kElements pairs, and of one pair for all elements.
  static F even_of_pairs(const uint16_t* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  static F odd_of_pairs(const uint16_t* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000));
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, high));
  }
  static F even_of_pair(uint32_t pair) {
    return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(pair << 16)));
  }
  static F odd_of_pair(uint32_t pair) {
    return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(pair & 0xffff0000)));
  }
};
