// Weights of any format as strips of bfloat16, with AVX-512. Needs
//   __m512i bf16_of(F low, F high)   32 rounded values in order

// Returns the 16 levels from `first` on as floats, with the offset taken away.
template <typename Format>
TROIKA_INLINE inline F levels_as_floats(__m512i levels, int quarter) {
  __m128i bytes;
  switch (quarter) {
    case 0:
      bytes = _mm512_castsi512_si128(levels);
      break;
    case 1:
      bytes = _mm512_extracti32x4_epi32(levels, 1);
      break;
    case 2:
      bytes = _mm512_extracti32x4_epi32(levels, 2);
      break;
    default:
      bytes = _mm512_extracti32x4_epi32(levels, 3);
  }
  const __m512i whole = _mm512_cvtepu8_epi32(bytes);
  if constexpr (Format::kOffset == 0) return _mm512_cvtepi32_ps(whole);
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(whole, _mm512_set1_epi32(Format::kOffset)));
}

// Decodes the weights of a row of blocks, to the bit as their codec does, 64 at a time.
template <typename Format>
struct BlockValues {
  // Calls body(j, values, is_finite) for j from 0 to 3. The values are those from i + 64 j on, and
  // zeros behind the end of the row. Where `is_finite` is set, none of them is an infinity or
  // not-a-number.
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* row, size_t i, size_t k, Body body) {
    const std::byte* c = row + i / kSuperBlock * Format::kBytes;
    std::byte rest[Format::kBytes];
    if (Format::kBlock < kSuperBlock && k - i < kSuperBlock) {
      pad_rest<Format>(c, k - i, rest);
      c = rest;
    }
    visit_super_block(c, body);
  }

 private:
  // Returns one value times sixteen bytes, an element for each group.
  TROIKA_INLINE static __m512 of_groups(__m512 value, __m128i multiples) {
    return _mm512_mul_ps(_mm512_broadcastss_ps(_mm512_castps512_ps128(value)),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(multiples)));
  }
  template <typename Body>
  TROIKA_INLINE static void visit_super_block(const std::byte* c, Body body) {
    __m512 scales = _mm512_castps256_ps512(Format::scales(c)), minima = _mm512_setzero_ps();
    if constexpr (Format::kHasMinima) minima = _mm512_castps256_ps512(Format::minima(c));
    if constexpr (Format::kGroup == 16) {
      scales = of_groups(scales, Format::multiples(c));
      if constexpr (Format::kHasMinima) minima = of_groups(minima, Format::min_multiples(c));
    }
    constexpr __mmask16 kGroups =
        static_cast<__mmask16>((1u << (kSuperBlock / Format::kGroup)) - 1);
    constexpr int kInfinityOrNan = 0x99;
    const bool is_finite = !Format::kMayOverflow &&
                           (_mm512_mask_fpclass_ps_mask(kGroups, scales, kInfinityOrNan) |
                            _mm512_mask_fpclass_ps_mask(kGroups, minima, kInfinityOrNan)) == 0;
    unrolled<4>([&](auto j) TROIKA_INLINE {
      const __m512i levels = Format::levels(c, j);
      F values[4];
      unrolled<4>([&](auto q) TROIKA_INLINE {
        const __m512i group = _mm512_set1_epi32((64 * j + 16 * q) / Format::kGroup);
        values[q] = _mm512_mul_ps(levels_as_floats<Format>(levels, q),
                                  _mm512_permutexvar_ps(group, scales));
        if constexpr (Format::kHasMinima) {
          values[q] = _mm512_sub_ps(values[q], _mm512_permutexvar_ps(group, minima));
        }
      });
      body(j, values, is_finite);
    });
  }
};

template <Type kType>
struct FloatValues {
  static F load(const std::byte* p) {
    if constexpr (kType == Type::kF32) {
      return _mm512_loadu_ps(p);
    } else if constexpr (kType == Type::kF16) {
      return V::load_f16(p);
    } else {
      return V::load_bf16(p);
    }
  }
  template <typename Body>
  TROIKA_INLINE static void visit(const std::byte* row, size_t i, size_t k, Body body) {
    constexpr size_t kBytes = kType == Type::kF32 ? 4 : 2;
    const std::byte* c = row + i * kBytes;
    std::byte rest[kSuperBlock * kBytes];
    if (k - i < kSuperBlock) {
      std::memset(rest, 0, sizeof(rest));
      std::memcpy(rest, c, (k - i) * kBytes);
      c = rest;
    }
    unrolled<4>([&](auto j) TROIKA_INLINE {
      F values[4];
      unrolled<4>([&](auto q) TROIKA_INLINE { values[q] = load(c + (64 * j + 16 * q) * kBytes); });
      body(j, values, false);
    });
  }
};

template <Type kType>
using RowOf =
    std::conditional_t<tensor::is_float(kType), FloatValues<kType>, BlockValues<Ordered<kType>>>;

template <typename Values>
void unpack_bf16(const MatmulWeight& weight, size_t first_k, size_t n_k, uint16_t* strip) {
  const size_t n_rows = weight.last_row - weight.first_row;
  alignas(64) uint16_t rows[kStripRows][kSuperBlock];
  if (n_rows < kStripRows) std::memset(rows, 0, sizeof(rows));
  for (size_t i = 0; i < n_k; i += kSuperBlock) {
    for (size_t r = 0; r < n_rows; ++r) {
      const std::byte* row = weight.data + (weight.first_row + r) * weight.row_bytes;
      Values::visit(row, first_k + i, weight.k, [&](auto j, const F(&v)[4], bool) TROIKA_INLINE {
        _mm512_store_si512(rows[r] + 64 * j, bf16_of(v[0], v[1]));
        _mm512_store_si512(rows[r] + 64 * j + 32, bf16_of(v[2], v[3]));
      });
    }
    const size_t n = n_k - i < kSuperBlock ? n_k - i : kSuperBlock;
    for (size_t j = 0; j < n; j += kBf16TileDepth) {
      __m512i lines[16];
      unrolled<16>([&](auto r) TROIKA_INLINE { lines[r] = _mm512_load_si512(rows[r] + j); });
      turn_around(lines);
      uint16_t* out = strip + (i + j) * kStripRows;
      unrolled<16>([&](auto r) TROIKA_INLINE { _mm512_store_si512(out + 32 * r, lines[r]); });
    }
  }
}
