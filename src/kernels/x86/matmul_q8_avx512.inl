// Products with quantised activations of several tokens with AVX-512: 16 rows share a vector, an
// element for each, so that the whole numbers of a group need not be added up across elements.
// Turning the levels of 16 rows around costs as much as multiplying them with some tokens, so it
// pays from kLeastTokens on. Each output is summed as `tile` sums it, to the bit.

constexpr size_t kElements = 16;

// Adds the partial sums of each row for token t, as `total` adds them.
template <size_t kSums>
TROIKA_INLINE inline __m512 total_of(const __m512 (&sums)[kSums][kGroupTokens], size_t t) {
  __m512 s[8];
  unrolled<8>([&](auto i) TROIKA_INLINE {
    s[i] = kSums == 16 ? _mm512_add_ps(sums[i][t], sums[(i + 8) % kSums][t]) : sums[i][t];
  });
  unrolled<4>([&](auto i) TROIKA_INLINE { s[i] = _mm512_add_ps(s[i], s[i + 4]); });
  unrolled<2>([&](auto i) TROIKA_INLINE { s[i] = _mm512_add_ps(s[i], s[i + 2]); });
  return _mm512_add_ps(s[0], s[1]);
}

template <typename Format>
struct SixteenRows {
  using Levels = typename Format::Levels;
  static constexpr size_t kSums = kSuperBlock / Format::kGroup;
  static constexpr bool kHasMinima = Levels::kHasMinima;

  alignas(64) __m512 sums[kSums][kGroupTokens];
  alignas(64) __m512i levels[16];  // levels of 64 columns, four in a vector
  alignas(64) __m512 scales[kSums];
  alignas(64) __m512 minima[kSums];

  // Calls a function for 16 rows, which gives an element for each group, and writes an element for
  // each row.
  template <typename OfRow>
  TROIKA_INLINE void gather(const OfRow& of_row, __m512 (&by_element)[kSums]) {
    __m512i v[kElements];
    unrolled<kElements>([&](auto r) TROIKA_INLINE { v[r] = whole_vector(of_row(r)); });
    turn_around(v);
    unrolled<static_cast<int>(kSums)>(
        [&](auto i) TROIKA_INLINE { by_element[i] = _mm512_castsi512_ps(v[i]); });
  }
  TROIKA_INLINE static __m512i whole_vector(__m512 v) { return _mm512_castps_si512(v); }
  TROIKA_INLINE static __m512i whole_vector(__m256 v) {
    return _mm512_castsi256_si512(_mm256_castps_si256(v));
  }

  // Adds one group: kVectors vectors of levels, from `first` on.
  template <int kVectors>
  TROIKA_INLINE void add_group(int first, int group, int half, const PreparedTokens& tokens,
                               size_t block, size_t n_tokens) {
    const auto element = static_cast<size_t>(Format::element_of(group));
    __m512i w[kVectors];
    unrolled<kVectors>([&](auto j) TROIKA_INLINE { w[j] = levels[first + j]; });
    const __m512 scale = scales[element];
    __m512 minimum;
    if constexpr (kHasMinima) minimum = minima[element];
    for (size_t t = 0; t < n_tokens; ++t) {
      const TokenBlock& token = tokens.at(block, t);
      __m512i whole = _mm512_set1_epi32(token.start[half]);
      unrolled<kVectors>([&](auto j) TROIKA_INLINE {
        const int32_t four = token.fours[kVectors * half + j];
        whole = _mm512_dpbusd_epi32(whole, w[j], _mm512_set1_epi32(four));
      });
      __m512 s = sums[element][t];
      if constexpr (kHasMinima) s = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(token.sum[half]), s);
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(token.scale));
      sums[element][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), both, s);
    }
  }

  void add_super_block(const std::byte* c, size_t row_bytes, const PreparedTokens& tokens,
                       size_t first_block, size_t n_tokens) {
    const auto row = [&](int r) TROIKA_INLINE { return c + static_cast<size_t>(r) * row_bytes; };
    gather([&](int r) TROIKA_INLINE { return Format::scales(row(r)); }, scales);
    if constexpr (kHasMinima) {
      gather([&](int r) TROIKA_INLINE { return Format::minima(row(r)); }, minima);
    }
    for (int quarter = 0; quarter < 4; ++quarter) {
      __m512i v[kElements];
      unrolled<kElements>([&](auto r) TROIKA_INLINE { v[r] = Levels::levels(row(r), quarter); });
      turn_around(v);
      unrolled<kElements>([&](auto i) TROIKA_INLINE { levels[i] = v[i]; });
      for (int i = 0; i < 2; ++i) {
        const int b = 2 * quarter + i;
        const size_t block = first_block + static_cast<size_t>(b);
        if constexpr (Format::kGroup == 32) {
          add_group<8>(8 * i, b, 0, tokens, block, n_tokens);
        } else {
          add_group<4>(8 * i, 2 * b, 0, tokens, block, n_tokens);
          add_group<4>(8 * i + 4, 2 * b + 1, 1, tokens, block, n_tokens);
        }
      }
    }
  }

  void multiply(const MatmulWeight& weight, size_t first_row, const PreparedTokens& tokens,
                size_t n_tokens, float* y, size_t y_stride) {
    for (auto& group : sums) {
      for (size_t t = 0; t < n_tokens; ++t) group[t] = _mm512_setzero_ps();
    }
    const std::byte* c = weight.data + first_row * weight.row_bytes;
    size_t i = 0;
    for (; i + kSuperBlock <= weight.k; i += kSuperBlock, c += Format::kBytes) {
      prefetch_ahead<Format, kElements>(c, weight.row_bytes);
      add_super_block(c, weight.row_bytes, tokens, i / kQ8Block, n_tokens);
    }
    if (Format::kBlock < kSuperBlock && i < weight.k) {
      std::byte rest[kElements * Format::kBytes];
      for (size_t r = 0; r < kElements; ++r) {
        pad_rest<Format>(c + r * weight.row_bytes, weight.k - i, rest + r * Format::kBytes);
      }
      add_super_block(rest, Format::kBytes, tokens, i / kQ8Block, n_tokens);
    }
    for (size_t t = 0; t < n_tokens; ++t) {
      _mm512_storeu_ps(y + t * y_stride + first_row, total_of(sums, t));
    }
  }
};

template <typename Format>
void matmul_q8(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
               size_t x_stride_bytes, float* y, size_t y_stride) {
  const size_t n_rows = weight.last_row - weight.first_row;
  const size_t n_fitting = kTokenBlocks / n_token_blocks(weight.k);
  if (n_tokens < kLeastTokens || n_fitting < kLeastTokens || n_rows < kElements) {
    matmul_q8_tiles<Format>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
    return;
  }
  SixteenRows<Format> rows;
  MatmulWeight rest = weight;
  rest.first_row = weight.first_row + n_rows / kElements * kElements;
  with_prepared_tokens<typename Format::Levels>(
      x, x_stride_bytes, n_tokens, weight.k, [&](const PreparedTokens& tokens, size_t first) {
        for (size_t r = weight.first_row; r < rest.first_row; r += kElements) {
          rows.multiply(weight, r, tokens, tokens.n_tokens, y + first * y_stride, y_stride);
        }
      });
  if (rest.first_row < rest.last_row) {
    matmul_q8_tiles<Format>(rest, n_tokens, x, x_stride_bytes, y, y_stride);
  }
}
