// Walks a product with panels in tiles of strips and tokens; the arithmetic of a tile is each
// instruction set's own. Included inside of a target region and an anonymous namespace.

// Calls body(first strip, strips, first token, tokens) for each tile, the counts as constants. The
// strips of a tile stay in the second-level cache while all tokens pass by.
template <int kStrips, int kTokens, typename Body>
TROIKA_INLINE inline void for_each_token_tile(size_t strip, size_t n_tokens, Body& body) {
  constexpr std::integral_constant<int, kStrips> strips;
  size_t t = 0;
  for (; t + kTokens <= n_tokens; t += kTokens) {
    body(strip, strips, t, std::integral_constant<int, kTokens>());
  }
  unrolled<kTokens - 1>([&](auto i) TROIKA_INLINE {
    if (n_tokens - t == i + 1) body(strip, strips, t, std::integral_constant<int, i + 1>());
  });
}

template <int kStrips, int kTokens, typename Body>
TROIKA_INLINE inline void for_each_tile(const PanelProduct& product, Body body) {
  size_t strip = product.first_strip;
  for (; strip + kStrips <= product.last_strip; strip += kStrips) {
    for_each_token_tile<kStrips, kTokens>(strip, product.n_tokens, body);
  }
  unrolled<kStrips - 1>([&](auto i) TROIKA_INLINE {
    if (product.last_strip - strip == i + 1) {
      for_each_token_tile<i + 1, kTokens>(strip, product.n_tokens, body);
    }
  });
}

// Returns how many results a line has: those of the whole strip, or of the rows that the matrix
// still has.
TROIKA_INLINE inline size_t n_rows_of_strip(size_t strip, size_t n_rows) {
  const size_t left = n_rows - strip * kStripRows;
  return left < kStripRows ? left : kStripRows;
}
