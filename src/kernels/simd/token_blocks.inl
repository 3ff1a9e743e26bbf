// Quantised activations of several tokens, ready to be spread over elements that belong to rows.

constexpr size_t kLeastTokens = 5;  // with fewer tokens preparing them does not pay
// At most this many prepared blocks wait at a time: 288 KB, which the second-level cache holds.
constexpr size_t kTokenBlocks = 4608;

template <typename Levels>
void spread_blocks(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride) {
  const Q8Row x = q8_row(row, k);
  const size_t n_blocks = n_token_blocks(k);
  for (size_t b = 0; b < n_blocks; ++b) {
    TokenBlock& block = blocks[b * stride];
    std::memcpy(block.fours, x.q + b * kQ8Block, kQ8Block);
    std::memcpy(&block.pair_of_sums, x.sum + 2 * b, sizeof(block.pair_of_sums));
    block.scale = x.scale[b];
    int32_t sums[2] = {x.sum[2 * b], x.sum[2 * b + 1]};
    if (Levels::kGroup == kQ8Block) sums[0] += sums[1];
    for (int i = 0; i < 2; ++i) {
      block.start[i] = -Levels::kOffset * sums[i];
      block.sum[i] = static_cast<float>(sums[i]) * block.scale;
    }
  }
}

// A group of tokens: block b of token t is blocks[b * n_tokens + t].
struct PreparedTokens {
  static constexpr bool kAreFew = false;
  const TokenBlock* blocks;
  size_t n_tokens;

  TROIKA_INLINE const TokenBlock& at(size_t b, size_t t) const { return blocks[b * n_tokens + t]; }
  TROIKA_INLINE const int32_t& four(size_t b, size_t t, int i) const { return at(b, t).fours[i]; }
  TROIKA_INLINE float scale(size_t b, size_t t) const { return at(b, t).scale; }
  TROIKA_INLINE int32_t start(size_t b, size_t t, int half) const { return at(b, t).start[half]; }
  TROIKA_INLINE float sum(size_t b, size_t t, int half) const { return at(b, t).sum[half]; }
  TROIKA_INLINE int32_t pair_of_sums(size_t b, size_t t) const { return at(b, t).pair_of_sums; }
};

// Prepares tokens that come as rows, and calls body(prepared, first) for groups of them. REQUIRES:
// n_token_blocks(k) <= kTokenBlocks.
template <typename Levels, typename Body>
void with_prepared_tokens(const std::byte* x, size_t x_stride_bytes, size_t n_tokens, size_t k,
                          Body body) {
  const size_t n_fitting = kTokenBlocks / n_token_blocks(k);
  const TokenGroups groups = {n_tokens, n_fitting < kGroupTokens ? n_fitting : kGroupTokens};
  TokenBlock blocks[kTokenBlocks];
  for (size_t group = 0; group < groups.count(); ++group) {
    const size_t first = groups.first(group), n = groups.size(group);
    for (size_t t = 0; t < n; ++t) {
      spread_blocks<Levels>(x + (first + t) * x_stride_bytes, k, blocks + t, n);
    }
    body(PreparedTokens{blocks, n}, first);
  }
}
