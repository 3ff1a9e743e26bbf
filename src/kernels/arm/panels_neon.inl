// Products with int8 panels with NEON's dot products: one instruction takes a quarter of a line,
// 4 rows, and one of the four groups of k that a register of activations holds.

constexpr int kInt8Strips = 1;
constexpr int kInt8Tokens = 4;
constexpr int kBf16Strips = 1;
constexpr int kBf16Tokens = 4;

template <int kTokens>
void int8_tile(const Int8Panels& weight, const PanelProduct& product, size_t strip, size_t token) {
  const int8_t* w = weight.levels_of(strip);
  const uint8_t* x[kTokens];
  int32x4_t sums[4][kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE {
    x[t] = int8_token(product.x + (token + t) * product.x_stride_bytes, weight.k).levels;
    unrolled<4>([&](auto q) TROIKA_INLINE { sums[q][t] = vdupq_n_s32(0); });
  });
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += 4 * kInt8LineDepth) {
    int8x16_t groups[kTokens];
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      groups[t] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x[t] + i), vdupq_n_u8(128)));
    });
    unrolled<4>([&](auto g) TROIKA_INLINE {
      unrolled<4>([&](auto q) TROIKA_INLINE {
        const int8x16_t line = vld1q_s8(w + 16 * q);
        unrolled<kTokens>([&](auto t) TROIKA_INLINE {
          sums[q][t] = vdotq_laneq_s32(sums[q][t], line, groups[t], g);
        });
      });
      w += kLineBytes;
    });
  }
  const size_t n_rows = n_rows_of_strip(strip, weight.n_rows);
  unrolled<4>([&](auto q) TROIKA_INLINE {
    if (n_rows <= 4 * q) return;
    const size_t n = n_rows - 4 * q < 4 ? n_rows - 4 * q : 4;
    const size_t row = strip * kStripRows + 4 * q;
    const F scales = V::load(weight.scales_of(strip) + 4 * q);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const std::byte* x_row = product.x + (token + t) * product.x_stride_bytes;
      const F scale = V::set(*int8_token(x_row, weight.k).scale);
      F y = V::mul(V::mul(vcvtq_f32_s32(sums[q][t]), scale), scales);
      if (product.bias != nullptr) y = V::add(y, V::load_part(product.bias + row, n));
      V::store_part(product.y + (token + t) * product.y_stride + row, y, n);
    });
  });
}

void matmul_int8(const Int8Panels& weight, const PanelProduct& product) {
  for_each_tile<kInt8Strips, kInt8Tokens>(
      product, [&](size_t strip, auto, size_t token, auto n_tokens)
                   TROIKA_INLINE { int8_tile<n_tokens>(weight, product, strip, token); });
}
