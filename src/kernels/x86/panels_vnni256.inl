// Products with int8 panels by vpdpbusd on vectors of 256 bits, half a line at a time. Needs
//   void add_fours(__m256i& sum, __m256i x, __m256i w)
// which adds four products of unsigned x and signed w to each element. Without AVX-512 there are 16
// registers: 12 sums, 2 halves of a line, and a group of activations.

constexpr int kVnniTokens = 6;

template <int kTokens>
void int8_vnni_tile(const Int8Panels& weight, const PanelProduct& product, size_t strip,
                    size_t token) {
  const int8_t* w = weight.levels_of(strip);
  const int32_t* starts = weight.starts_of(strip);
  const float* scales = weight.scales_of(strip);
  const uint8_t* x[kTokens];
  __m256i sums[2][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    x[t] = int8_token(product.x + (token + t) * product.x_stride_bytes, weight.k).levels;
  });
  unrolled<2>([&](auto h) TROIKA_INLINE {
    const __m256i start = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(starts + 8 * h));
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[h][t] = start; });
  });
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += kInt8LineDepth, w += kLineBytes) {
    const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + kLineBytes / 2));
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      int32_t word;
      std::memcpy(&word, x[t] + i, sizeof(word));
      const __m256i group = _mm256_set1_epi32(word);
      add_fours(sums[0][t], group, low);
      add_fours(sums[1][t], group, high);
    });
  }
  const size_t row = strip * kStripRows, n_rows = n_rows_of_strip(strip, weight.n_rows);
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    const std::byte* x_row = product.x + (token + t) * product.x_stride_bytes;
    const __m256 scale = _mm256_set1_ps(*int8_token(x_row, weight.k).scale);
    alignas(32) float y[kStripRows];
    unrolled<2>([&](auto h) TROIKA_INLINE {
      _mm256_store_ps(y + 8 * h, _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[h][t]), scale),
                                               _mm256_loadu_ps(scales + 8 * h)));
    });
    float* out = product.y + (token + t) * product.y_stride + row;
    for (size_t r = 0; r < n_rows; ++r) {
      out[r] = product.bias != nullptr ? y[r] + product.bias[row + r] : y[r];
    }
  });
}

void matmul_int8_vnni(const Int8Panels& weight, const PanelProduct& product) {
  for_each_tile<1, kVnniTokens>(
      product, [&](size_t strip, auto, size_t token, auto n_tokens)
                   TROIKA_INLINE { int8_vnni_tile<n_tokens>(weight, product, strip, token); });
}
