// Unpacks weights of strips as int8 panels. After unpack_strips.inl and the function unpack_int8 of
// rows.

template <Type kType>
void unpack_int8_strip(const MatmulWeight& weight, const float* largest, const Int8Strip& strip) {
  if (weight.first_row >= weight.n_strip_rows) {
    unpack_int8<RowOf<kType>>(weight, largest, strip);
    return;
  }
  float inverses[kStripRows];
  for (size_t r = 0; r < kStripRows; ++r) {
    const bool some = largest[r] >= kQ8Smallest;
    strip.scales[r] = scale_of_largest(largest[r]);
    inverses[r] = some ? 127.0f / largest[r] : 0.0f;
  }
  const std::byte* strip_begin = weight.data + weight.first_row * weight.row_bytes;
  for (size_t row = 0; row < kStripRows; row += kWordRows) {
    const Floats inverse = V::load(inverses + row);
    Words sums = splat_words(0);
    const std::byte* c = strip_begin;
    for (size_t i = 0; i < weight.k;
         i += kSuperBlock, c += kStripRows * StripLevels<kType>::kBytes) {
      visit_strip<kType>({c, row}, weight.k - i,
                         [&](size_t at, const Floats(&values)[4], bool is_finite) TROIKA_INLINE {
                           Words whole[4];
                           unrolled<4>([&](auto j) TROIKA_INLINE {
                             const Floats value = is_finite ? values[j] : finite_of(values[j]);
                             whole[j] = nearest(times(value, inverse));
                             sums = more_words(sums, whole[j]);
                           });
                           // Puts the lowest bytes of four words side by side.
                           const Words low = byte_of<0>(whole[0]) | up_32<8>(byte_of<0>(whole[1]));
                           const Words high = byte_of<0>(whole[2]) | up_32<8>(byte_of<0>(whole[3]));
                           store_words(strip.levels + (i + at) * kStripRows + kInt8LineDepth * row,
                                       low | up_32<16>(high));
                         });
    }
    store_words(strip.starts + row, up_32<7>(less_words(splat_words(0), sums)));
  }
  std::memset(strip.levels + weight.k * kStripRows, 0,
              (int8_depth(weight.k) - weight.k) * kStripRows);
}
