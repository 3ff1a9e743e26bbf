// Weights of any format as strips of int8 with AVX-512 VNNI, to the bit like the reference.

template <typename Values>
float largest_of_row(const std::byte* row, size_t k) {
  F most = V::zero(), odd = V::zero();
  for (size_t i = 0; i < k; i += kSuperBlock) {
    Values::visit(row, i, k, [&](auto, const F(&values)[4], bool is_finite) TROIKA_INLINE {
      unrolled<4>([&](auto q) TROIKA_INLINE {
        if (!is_finite) odd = add_odd(odd, values[q]);
        const F value = is_finite ? values[q] : finite_of(values[q]);
        most = V::max(V::magnitude(value), most);
      });
    });
  }
  return unless_odd(V::largest(most), odd);
}

// Packs 64 levels of a row. Packing works on quarters of a vector, which leaves the groups of four
// in the order 0 4 8 12, 1 5 9 13, ...
TROIKA_INLINE inline __m512i packed_levels(const F (&values)[4], bool is_finite, F inverse) {
  __m512i whole[4];
  unrolled<4>([&](auto q) TROIKA_INLINE {
    const F value = is_finite ? values[q] : finite_of(values[q]);
    whole[q] = _mm512_cvtps_epi32(V::mul(value, inverse));
  });
  return _mm512_packs_epi16(_mm512_packs_epi32(whole[0], whole[1]),
                            _mm512_packs_epi32(whole[2], whole[3]));
}
constexpr size_t line_of_packed(size_t position) { return position % 4 * 4 + position / 4; }

// Stores rows as lines; `sums` grows by 128 times the levels of each row.
TROIKA_INLINE inline void store_lines(__m512i (&rows)[16], int8_t* out, __m512i& sums) {
  turn_around(rows);
  const __m512i factors = _mm512_set1_epi8(static_cast<char>(128));
  unrolled<16>([&](auto i) TROIKA_INLINE {
    _mm512_store_si512(out + line_of_packed(i) * kLineBytes, rows[i]);
    sums = _mm512_dpbusd_epi32(sums, factors, rows[i]);
  });
}

template <typename Values>
void unpack_int8(const MatmulWeight& weight, const float* largest, const Int8Strip& strip) {
  const size_t n_rows = weight.last_row - weight.first_row;
  alignas(64) int8_t rows[kStripRows][kSuperBlock];
  float inverses[kStripRows];
  if (n_rows < kStripRows) std::memset(rows, 0, sizeof(rows));
  for (size_t r = 0; r < kStripRows; ++r) {
    const bool some = r < n_rows && largest[r] >= kQ8Smallest;
    inverses[r] = some ? 127.0f / largest[r] : 0.0f;
    strip.scales[r] = r < n_rows ? scale_of_largest(largest[r]) : 0.0f;
  }
  const size_t depth = int8_depth(weight.k);
  __m512i sums = _mm512_setzero_si512();
  for (size_t i = 0; i < depth; i += kSuperBlock) {
    for (size_t r = 0; r < n_rows; ++r) {
      const std::byte* row = weight.data + (weight.first_row + r) * weight.row_bytes;
      const F inverse = V::set(inverses[r]);
      Values::visit(
          row, i, weight.k, [&](auto j, const F(&values)[4], bool is_finite) TROIKA_INLINE {
            _mm512_store_si512(rows[r] + 64 * j, packed_levels(values, is_finite, inverse));
          });
    }
    const size_t n = depth - i < kSuperBlock ? depth - i : kSuperBlock;
    for (size_t j = 0; j < n; j += kInt8TileDepth) {
      __m512i lines[16];
      unrolled<16>([&](auto r) TROIKA_INLINE { lines[r] = _mm512_load_si512(rows[r] + j); });
      store_lines(lines, strip.levels + (i + j) * kStripRows, sums);
    }
  }
  _mm512_storeu_si512(strip.starts, _mm512_sub_epi32(_mm512_setzero_si512(), sums));
}
