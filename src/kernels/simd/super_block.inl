// What every tile of integer dot products needs. Included inside of a target region and an
// anonymous namespace.

constexpr size_t kSuperBlock = 256;  // counts weights that a tile takes at a time

// Copies what the tiles read at the end of a row: the rest of it, followed by zeros, so that the
// last step is like all others. A zero block has scale 0. `buffer` has room for Format::kBytes.
template <typename Format>
void pad_rest(const std::byte* bytes, size_t n_weights, std::byte* buffer) {
  std::memset(buffer, 0, Format::kBytes);
  std::memcpy(buffer, bytes,
              n_weights / Format::kBlock * (Format::kBytes * Format::kBlock / kSuperBlock));
}

// Rows follow each other in memory. Hardware looks ahead in each row, but only up to the end of a
// page and with few requests under way. So each step fetches what about the tile after next will
// need. It goes into the second-level cache: the first has room for few requests, and those of the
// step itself would wait behind them. A row that is given without a distance to the next one stands
// alone: nobody asks for what lies behind it.
template <typename Format, int kRows>
TROIKA_INLINE inline void prefetch_ahead(const std::byte* c, size_t row_bytes) {
  constexpr size_t kLeastBytes = 8192;
  if (row_bytes == 0) return;
  const size_t ahead = kRows * row_bytes < kLeastBytes ? kLeastBytes : kRows * row_bytes;
  unrolled<kRows>([&](auto r) TROIKA_INLINE {
    // The address is kept as a number, because it may lie beyond the matrix.
    const uintptr_t from = reinterpret_cast<uintptr_t>(c) + r * row_bytes + ahead;
    unrolled<(Format::kBytes + 63) / 64>([&](auto line) TROIKA_INLINE {
      __builtin_prefetch(reinterpret_cast<const void*>(from + 64 * line), 0, 2);
    });
  });
}
