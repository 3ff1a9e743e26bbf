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
