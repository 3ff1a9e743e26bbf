// Weights of strips as panels with AVX-512, to the bit like those of single rows: the rows lie in
// the lanes that panels have for them, so that nothing has to be turned around. After
// strips_avx512.inl.

// Level kByte of the four that each lane has, as floats, the offset taken away.
template <typename Format, int kByte>
TROIKA_INLINE inline __m512 floats_of_byte(__m512i levels) {
  const __m512i whole = byte_of<kByte>(levels);
  if constexpr (Format::kOffset == 0) return _mm512_cvtepi32_ps(whole);
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(whole, _mm512_set1_epi32(Format::kOffset)));
}

// Calls body(i, values, is_finite) for each four weights of 16 rows from the super-block at `c` on,
// of which the row has n_k still: i counts from its beginning. Where `is_finite` is set, there is
// neither infinity nor not-a-number among them.
template <Type kType, typename Body>
TROIKA_INLINE inline void visit_strip(const std::byte* c, size_t n_k, Body body) {
  using Format = typename Strip<kType>::Levels;
  constexpr size_t kGroup = Format::kGroup, kGroups = kSuperBlock / kGroup;
  alignas(64) __m512 scales[kGroups], minima[kGroups];
  const size_t n_blocks = (n_k < kSuperBlock ? n_k : kSuperBlock) / kQ8Block;
  Strip<kType>::scales(c, n_blocks, scales);
  if constexpr (Format::kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
  Strip<kType>::visit(c, n_blocks, [&](size_t group, const auto& levels) TROIKA_INLINE {
    const __m512 scale = scales[group];
    __m512 minimum = _mm512_setzero_ps();
    if constexpr (Format::kHasMinima) minimum = minima[group];
    constexpr int kInfinityOrNan = 0x99;
    const bool is_finite =
        !Format::kMayOverflow && (_mm512_fpclass_ps_mask(scale, kInfinityOrNan) |
                                  _mm512_fpclass_ps_mask(minimum, kInfinityOrNan)) == 0;
    unrolled<Strip<kType>::kVectors>([&](auto i) TROIKA_INLINE {
      F values[4];
      unrolled<4>([&](auto j) TROIKA_INLINE {
        values[j] = _mm512_mul_ps(floats_of_byte<Format, j>(levels[i]), scale);
        if constexpr (Format::kHasMinima) values[j] = _mm512_sub_ps(values[j], minimum);
      });
      body(group * kGroup + 4 * i, values, is_finite);
    });
  });
}

// Two vectors of 16 floats as 16 pairs of bfloat16.
TROIKA_INLINE inline __m512i pairs_of_bf16(F first, F second) {
  const __m512i order =
      _mm512_setr_epi32(0x00100000, 0x00110001, 0x00120002, 0x00130003, 0x00140004, 0x00150005,
                        0x00160006, 0x00170007, 0x00180008, 0x00190009, 0x001a000a, 0x001b000b,
                        0x001c000c, 0x001d000d, 0x001e000e, 0x001f000f);
  return _mm512_permutexvar_epi16(order, bf16_of(first, second));
}

template <Type kType>
void unpack_bf16_strip(const MatmulWeight& weight, size_t first_k, size_t n_k, uint16_t* strip) {
  if (weight.first_row >= weight.n_strip_rows) {
    unpack_bf16<ValuesOf<kType>>(weight, first_k, n_k, strip);
    return;
  }
  constexpr size_t kStripBytes = kPanelRows * Format<kType>::kBytes;
  const std::byte* c =
      weight.data + weight.first_row * weight.row_bytes + first_k / kSuperBlock * kStripBytes;
  for (size_t i = 0; i < n_k; i += kSuperBlock, c += kStripBytes) {
    visit_strip<kType>(c, n_k - i, [&](size_t at, const F(&v)[4], bool) TROIKA_INLINE {
      uint16_t* lines = strip + (i + at) * kPanelRows;
      _mm512_store_si512(lines, pairs_of_bf16(v[0], v[1]));
      _mm512_store_si512(lines + 2 * kPanelRows, pairs_of_bf16(v[2], v[3]));
    });
  }
}
