// Weights of strips as panels, to the bit like those of single rows: the rows lie in the elements
// that panels have for them, so that nothing has to be turned around. After strips.inl and the
// function unpack_bf16 of rows. Needs
//   bool are_finite(Floats a, Floats b)
//   Words pairs_of_bf16(Floats first, Floats second)   of each element both, rounded

// Returns level kByte of the four that each element has, as floats, with the offset taken away.
template <typename Levels, int kByte>
TROIKA_INLINE inline Floats floats_of_byte(Words levels) {
  if constexpr (Levels::kSigned) {
    return floats_of(signed_byte_of<kByte>(levels));
  } else if constexpr (Levels::kOffset == 0) {
    return floats_of(byte_of<kByte>(levels));
  } else {
    return floats_of(less_words(byte_of<kByte>(levels), splat_words(Levels::kOffset)));
  }
}

// Calls body(i, values, is_finite) for each four weights of the rows of `c`, which stands at a
// super-block, of which n_k weights of the row are left. i counts from the super-block's beginning.
// Where `is_finite` is set, none of the values is an infinity or not-a-number.
template <Type kType, typename Body>
TROIKA_INLINE inline void visit_strip(StripAt c, size_t n_k, Body body) {
  using Levels = typename Strip<kType>::Levels;
  constexpr size_t kGroup = Levels::kGroup, kGroups = kSuperBlock / kGroup;
  alignas(64) Floats scales[kGroups], minima[kGroups];
  const size_t n_blocks = (n_k < kSuperBlock ? n_k : kSuperBlock) / kQ8Block;
  Strip<kType>::scales(c, n_blocks, scales);
  if constexpr (Levels::kHasMinima) Strip<kType>::minima(c, n_blocks, minima);
  Strip<kType>::visit(c, n_blocks, [&](size_t group, const auto& levels) TROIKA_INLINE {
    const Floats scale = scales[group];
    Floats minimum = scale;
    if constexpr (Levels::kHasMinima) minimum = minima[group];
    const bool is_finite = !Levels::kMayOverflow && are_finite(scale, minimum);
    // The loop stays rolled: levels may wait in memory, and unrolled it takes long to compile.
    for (size_t i = 0; i < static_cast<size_t>(Strip<kType>::kVectors); ++i) {
      Floats values[4];
      unrolled<4>([&](auto j) TROIKA_INLINE {
        values[j] = times(floats_of_byte<Levels, j>(levels[i]), scale);
        if constexpr (Levels::kHasMinima) values[j] = less(values[j], minimum);
      });
      body(group * kGroup + 4 * i, values, is_finite);
    }
  });
}

template <Type kType>
void unpack_bf16_strip(const MatmulWeight& weight, size_t first_k, size_t n_k, uint16_t* strip) {
  if (weight.first_row >= weight.n_strip_rows) {
    unpack_bf16<RowOf<kType>>(weight, first_k, n_k, strip);
    return;
  }
  constexpr size_t kStripBytes = kStripRows * StripLevels<kType>::kBytes;
  const std::byte* c =
      weight.data + weight.first_row * weight.row_bytes + first_k / kSuperBlock * kStripBytes;
  for (size_t i = 0; i < n_k; i += kSuperBlock, c += kStripBytes) {
    for (size_t row = 0; row < kStripRows; row += kWordRows) {
      visit_strip<kType>(
          {c, row}, n_k - i, [&](size_t at, const Floats(&v)[4], bool) TROIKA_INLINE {
            uint16_t* lines = strip + (i + at) * kStripRows + kBf16LineDepth * row;
            store_words(lines, pairs_of_bf16(v[0], v[1]));
            store_words(lines + kBf16LineDepth * kStripRows, pairs_of_bf16(v[2], v[3]));
          });
    }
  }
}
