// Quantised activations of several tokens, ready to be spread over lanes that belong to rows.

constexpr size_t kLeastTokens = 5;     // for which preparing them pays
constexpr size_t kMostTokens = 32;     // whose sums wait in the first-level cache
constexpr size_t kTokenBlocks = 4608;  // of all tokens together: 288 KB on the stack

// 32 activations of a token.
struct alignas(64) TokenBlock {
  int32_t levels[8];  // four bytes each
  int32_t start[2];   // of both groups of 16, or the first of the whole: what offsets add, negative
  float scale;
  float sum[2];          // of both groups of 16, or the first of the whole, scaled
  int32_t pair_of_sums;  // of both groups of 16, two bytes each
};

// Block b of token t is blocks[b * n_tokens + t].
template <typename Levels>
void prepare_tokens(const std::byte* x, size_t x_stride_bytes, size_t n_tokens, size_t k,
                    TokenBlock* blocks) {
  const size_t n_blocks = (k + kSuperBlock - 1) / kSuperBlock * (kSuperBlock / kQ8Block);
  for (size_t t = 0; t < n_tokens; ++t) {
    const Q8Row row = q8_row(x + t * x_stride_bytes, k);
    for (size_t b = 0; b < n_blocks; ++b) {
      TokenBlock& block = blocks[b * n_tokens + t];
      std::memcpy(block.levels, row.q + b * kQ8Block, kQ8Block);
      std::memcpy(&block.pair_of_sums, row.sum + 2 * b, sizeof(block.pair_of_sums));
      block.scale = row.scale[b];
      int32_t sums[2] = {row.sum[2 * b], row.sum[2 * b + 1]};
      if (Levels::kGroup == 32) sums[0] += sums[1];
      for (int i = 0; i < 2; ++i) {
        block.start[i] = -Levels::kOffset * sums[i];
        block.sum[i] = static_cast<float>(sums[i]) * block.scale;
      }
    }
  }
}
