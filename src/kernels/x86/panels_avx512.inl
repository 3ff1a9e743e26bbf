// Products with int8 panels with AVX-512 VNNI: one instruction takes a line of weights and four
// levels of a token, and adds 64 products to the sums of 16 rows.

constexpr int kInt8Strips = 4;
constexpr int kInt8Tokens = 6;
// The plain bfloat16 product keeps two vectors for each line.
constexpr int kBf16Strips = 2;
constexpr int kBf16Tokens = 8;

TROIKA_INLINE inline __m512i broadcast_group(const void* p) {
  int32_t group;
  std::memcpy(&group, p, sizeof(group));
  return _mm512_set1_epi32(group);
}

template <int kStrips, int kTokens>
void int8_tile(const Int8Panels& weight, const PanelProduct& product, size_t strip, size_t token) {
  const size_t strip_bytes = int8_strip_bytes(weight.k);
  const int8_t* w = weight.levels_of(strip);
  const uint8_t* x[kTokens];
  __m512i sums[kStrips][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    x[t] = int8_token(product.x + (token + t) * product.x_stride_bytes, weight.k).levels;
  });
  unrolled<kStrips>([&](auto s) TROIKA_INLINE {
    const __m512i start = _mm512_loadu_si512(weight.starts_of(strip + s));
    unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[s][t] = start; });
  });
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += kInt8LineDepth, w += kLineBytes) {
    __m512i lines[kStrips];
    unrolled<kStrips>([&](auto s)
                          TROIKA_INLINE { lines[s] = _mm512_load_si512(w + s * strip_bytes); });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const __m512i group = broadcast_group(x[t] + i);
      unrolled<kStrips>([&](auto s) TROIKA_INLINE { add_fours(sums[s][t], group, lines[s]); });
    });
  }
  unrolled<kStrips>([&](auto s) TROIKA_INLINE {
    const size_t row = (strip + s) * kStripRows;
    const __mmask16 rows = V::first_elements(n_rows_of_strip(strip + s, weight.n_rows));
    const __m512 scales = _mm512_loadu_ps(weight.scales_of(strip + s));
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const std::byte* x_row = product.x + (token + t) * product.x_stride_bytes;
      const __m512 scale = _mm512_set1_ps(*int8_token(x_row, weight.k).scale);
      __m512 y = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[s][t]), scale), scales);
      if (product.bias != nullptr) {
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(rows, product.bias + row));
      }
      _mm512_mask_storeu_ps(product.y + (token + t) * product.y_stride + row, rows, y);
    });
  });
}

void matmul_int8(const Int8Panels& weight, const PanelProduct& product) {
  for_each_tile<kInt8Strips, kInt8Tokens>(
      product, [&](size_t strip, auto n_strips, size_t token, auto n_tokens)
                   TROIKA_INLINE { int8_tile<n_strips, n_tokens>(weight, product, strip, token); });
}
