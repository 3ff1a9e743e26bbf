// Products with int8 panels with the matrix instruction of NEON (i8mm): it multiplies two rows by
// two tokens over 8 k. Two lines of 4 k, put together word by word, hold the 8 k of 16 rows.

constexpr int kMatrixTokens = 4;
constexpr int kRowPairs = static_cast<int>(kStripRows) / 2;

// Puts two tokens' 8 levels behind each other. The last pair of an odd number of tokens has no
// second one.
template <bool kHasSecond>
TROIKA_INLINE inline int8x16_t two_tokens(const uint8_t* first, const uint8_t* second) {
  const uint8x8_t low = vld1_u8(first);
  const uint8x8_t high = kHasSecond ? vld1_u8(second) : vdup_n_u8(128);
  return vreinterpretq_s8_u8(veorq_u8(vcombine_u8(low, high), vdupq_n_u8(128)));
}

template <int kTokens>
void int8_matrix_tile(const Int8Panels& weight, const PanelProduct& product, size_t strip,
                      size_t token) {
  constexpr int kTokenPairs = (kTokens + 1) / 2;
  const int8_t* w = weight.levels_of(strip);
  const uint8_t* x[2 * kTokenPairs];
  int32x4_t sums[kRowPairs][kTokenPairs];  // (row, token), (row, token + 1), (row + 1, token), ...
  unrolled<2 * kTokenPairs>([&](auto t) TROIKA_INLINE {
    const size_t at = token + (t < kTokens ? t : 0);
    x[t] = int8_token(product.x + at * product.x_stride_bytes, weight.k).levels;
  });
  unrolled<kRowPairs>([&](auto r) TROIKA_INLINE {
    unrolled<kTokenPairs>([&](auto t) TROIKA_INLINE { sums[r][t] = vdupq_n_s32(0); });
  });
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += 2 * kInt8LineDepth, w += 2 * kLineBytes) {
    int8x16_t levels[kTokenPairs];
    unrolled<kTokenPairs>([&](auto t) TROIKA_INLINE {
      levels[t] = two_tokens<(2 * t + 1 < kTokens)>(x[2 * t] + i, x[2 * t + 1] + i);
    });
    unrolled<4>([&](auto q) TROIKA_INLINE {
      const int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(w + 16 * q));
      const int32x4_t second = vreinterpretq_s32_s8(vld1q_s8(w + kLineBytes + 16 * q));
      const int8x16_t rows[2] = {vreinterpretq_s8_s32(vzip1q_s32(first, second)),
                                 vreinterpretq_s8_s32(vzip2q_s32(first, second))};
      unrolled<2>([&](auto p) TROIKA_INLINE {
        unrolled<kTokenPairs>([&](auto t) TROIKA_INLINE {
          sums[2 * q + p][t] = vmmlaq_s32(sums[2 * q + p][t], rows[p], levels[t]);
        });
      });
    });
  }
  const size_t row = strip * kStripRows, n_rows = n_rows_of_strip(strip, weight.n_rows);
  const float* scales = weight.scales_of(strip);
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    const std::byte* x_row = product.x + (token + t) * product.x_stride_bytes;
    const float scale = *int8_token(x_row, weight.k).scale;
    int32_t of_token[kStripRows];
    unrolled<kRowPairs>([&](auto r) TROIKA_INLINE {
      of_token[2 * r] = vgetq_lane_s32(sums[r][t / 2], t % 2);
      of_token[2 * r + 1] = vgetq_lane_s32(sums[r][t / 2], 2 + t % 2);
    });
    float* y = product.y + (token + t) * product.y_stride + row;
    for (size_t r = 0; r < n_rows; ++r) {
      const float value = static_cast<float>(of_token[r]) * scale * scales[r];
      y[r] = product.bias != nullptr ? value + product.bias[row + r] : value;
    }
  });
}

void matmul_int8_matrix(const Int8Panels& weight, const PanelProduct& product) {
  for_each_tile<1, kMatrixTokens>(
      product, [&](size_t strip, auto, size_t token, auto n_tokens)
                   TROIKA_INLINE { int8_matrix_tile<n_tokens>(weight, product, strip, token); });
}
