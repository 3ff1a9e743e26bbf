// Products with bfloat16 panels by float multiply-adds, for instruction sets that have nothing
// better. Each sum runs along k in order, in one element.

template <int kStrips, int kTokens>
void bf16_tile(const Bf16Stretch& weight, const PanelProduct& product, size_t strip, size_t token) {
  constexpr int kVectors = static_cast<int>(kStripRows / V::kElements) * kStrips;
  constexpr size_t kVectorsOfStrip = kStripRows / V::kElements;
  const size_t first = strip * kStripRows;
  const uint16_t* w = weight.panel + (strip - product.first_strip) * kStripRows * weight.n_k;
  const std::byte* x = product.x + token * product.x_stride_bytes;
  float* y = product.y + token * product.y_stride;
  const auto rows_of = [&](size_t v) TROIKA_INLINE {
    const size_t begin = first + v * V::kElements;
    const size_t left = weight.n_rows > begin ? weight.n_rows - begin : 0;
    return left < V::kElements ? left : V::kElements;
  };
  F sums[kVectors][kTokens];
  unrolled<kVectors>([&](auto v) TROIKA_INLINE {
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const float* at = y + t * product.y_stride + first + v * V::kElements;
      sums[v][t] = weight.is_first ? V::zero() : V::load_part(at, rows_of(v));
    });
  });
  for (size_t i = 0; i < weight.n_k; i += kBf16LineDepth) {
    F even[kVectors], odd[kVectors];
    unrolled<kVectors>([&](auto v) TROIKA_INLINE {
      const uint16_t* line = w + v / kVectorsOfStrip * kStripRows * weight.n_k + i * kStripRows +
                             v % kVectorsOfStrip * 2 * V::kElements;
      even[v] = V::even_of_pairs(line);
      odd[v] = V::odd_of_pairs(line);
    });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      uint32_t pair;
      std::memcpy(&pair, x + t * product.x_stride_bytes + 2 * i, sizeof(pair));
      const F x0 = V::even_of_pair(pair), x1 = V::odd_of_pair(pair);
      unrolled<kVectors>([&](auto v) TROIKA_INLINE {
        sums[v][t] = V::fma(odd[v], x1, V::fma(even[v], x0, sums[v][t]));
      });
    });
  }
  unrolled<kVectors>([&](auto v) TROIKA_INLINE {
    const size_t n = rows_of(v), row = first + v * V::kElements;
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      F sum = sums[v][t];
      if (weight.is_last && product.bias != nullptr) {
        sum = V::add(sum, V::load_part(product.bias + row, n));
      }
      V::store_part(y + t * product.y_stride + row, sum, n);
    });
  });
}

void matmul_bf16(const Bf16Stretch& weight, const PanelProduct& product) {
  for_each_tile<kBf16Strips, kBf16Tokens>(
      product, [&](size_t strip, auto n_strips, size_t token, auto n_tokens)
                   TROIKA_INLINE { bf16_tile<n_strips, n_tokens>(weight, product, strip, token); });
}
