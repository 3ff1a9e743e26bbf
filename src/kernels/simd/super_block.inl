// What every tile of integer dot products needs. Included inside of a target region and an
// anonymous namespace.

constexpr size_t kSuperBlock = 256;  // weights for which one step of a tile is written

// What the tiles read at the end of a row: the rest of it, followed by zeros, so that the last step
// is like all others. A zero block has scale 0.
template <typename Format>
const std::byte* padded_rest(const std::byte* bytes, size_t n_weights, std::byte* buffer) {
  std::memset(buffer, 0, Format::kBytes);
  std::memcpy(buffer, bytes,
              n_weights / Format::kBlock * (Format::kBytes * Format::kBlock / kSuperBlock));
  return buffer;
}

// Rows follow each other in memory, and the caches follow a single stream by themselves up to the
// end of a page only; several rows at once they do not follow at all. So each step asks for what it
// will want later: of one row a little ahead, of several the same place in the next tile.
template <typename Format, int kRows>
TROIKA_INLINE inline void prefetch_ahead(const std::byte* const* c, size_t row_bytes) {
  const size_t ahead = kRows == 1 ? 2048 : kRows * row_bytes;
  for (int r = 0; r < kRows; ++r) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(c[r]) + ahead;
    for (size_t byte = 0; byte < Format::kBytes; byte += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(from + byte));
    }
  }
}
