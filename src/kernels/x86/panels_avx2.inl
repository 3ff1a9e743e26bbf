// Products with int8 panels with AVX2, whose multiplication of bytes saturates: levels and
// activations are widened to 16 bits, two of the four k of a group at a time.

constexpr int kInt8Strips = 1;
constexpr int kInt8Tokens = 4;
constexpr int kBf16Strips = 1;
constexpr int kBf16Tokens = 4;

// Half a line, of 8 rows: the levels of the even k and of the odd k of the group.
struct WideLevels {
  __m256i even, odd;
};
TROIKA_INLINE inline WideLevels wide_levels(const int8_t* half_line) {
  const __m256i both = _mm256_load_si256(reinterpret_cast<const __m256i*>(half_line));
  return {_mm256_srai_epi16(_mm256_slli_epi16(both, 8), 8), _mm256_srai_epi16(both, 8)};
}

template <int kTokens>
void int8_tile(const Int8Panels& weight, const PanelProduct& product, size_t strip, size_t token) {
  const int8_t* w = weight.levels_of(strip);
  const uint8_t* x[kTokens];
  __m256i sums[2][kTokens];
  const size_t row = strip * kStripRows;
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    x[t] = int8_token(product.x + (token + t) * product.x_stride_bytes, weight.k).levels;
  });
  unrolled<2>([&](auto h) TROIKA_INLINE {
    const __m256i start =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight.starts_of(strip) + 8 * h));
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[h][t] = start; });
  });
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += kInt8LineDepth, w += kLineBytes) {
    const WideLevels levels[2] = {wide_levels(w), wide_levels(w + kLineBytes / 2)};
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      int32_t word;
      std::memcpy(&word, x[t] + i, sizeof(word));
      const __m256i group = _mm256_set1_epi32(word);
      const __m256i even = _mm256_and_si256(group, _mm256_set1_epi16(255));
      const __m256i odd = _mm256_srli_epi16(group, 8);
      unrolled<2>([&](auto h) TROIKA_INLINE {
        const __m256i products = _mm256_add_epi32(_mm256_madd_epi16(levels[h].even, even),
                                                  _mm256_madd_epi16(levels[h].odd, odd));
        sums[h][t] = _mm256_add_epi32(sums[h][t], products);
      });
    });
  }
  const size_t n_rows = n_rows_of_strip(strip, weight.n_rows);
  unrolled<2>([&](auto h) TROIKA_INLINE {
    if (n_rows <= 8 * h) return;
    const size_t n = n_rows - 8 * h < 8 ? n_rows - 8 * h : 8;
    const __m256 scales = _mm256_loadu_ps(weight.scales_of(strip) + 8 * h);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const std::byte* x_row = product.x + (token + t) * product.x_stride_bytes;
      const __m256 scale = _mm256_set1_ps(*int8_token(x_row, weight.k).scale);
      __m256 y = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[h][t]), scale), scales);
      if (product.bias != nullptr) y = V::add(y, V::load_part(product.bias + row + 8 * h, n));
      V::store_part(product.y + (token + t) * product.y_stride + row + 8 * h, y, n);
    });
  });
}

void matmul_int8(const Int8Panels& weight, const PanelProduct& product) {
  for_each_tile<kInt8Strips, kInt8Tokens>(
      product, [&](size_t strip, auto, size_t token, auto n_tokens)
                   TROIKA_INLINE { int8_tile<n_tokens>(weight, product, strip, token); });
}
