// Walks a product of weights in strips (tensor/strips.h) with quantised activations. The arithmetic
// of a strip is each instruction set's own: after
//   template <Type kType> struct StripProduct, whose
//     multiply(strip, k, tokens, n_tokens, y, y_stride)   writes 16 outputs of up to kMostTokens
//     kCountsFew    whether it wants numbers of few tokens as constants
//
// A product finds its tokens as blocks side by side, prepared for many rows:
template <typename Levels>
struct PreparedTokens {
  static constexpr bool kAreFew = false;
  const TokenBlock* blocks;
  size_t n_tokens;

  TROIKA_INLINE const TokenBlock& at(size_t b, size_t t) const { return blocks[b * n_tokens + t]; }
  TROIKA_INLINE const int32_t& four(size_t b, size_t t, int i) const { return at(b, t).levels[i]; }
  TROIKA_INLINE float scale(size_t b, size_t t) const { return at(b, t).scale; }
  TROIKA_INLINE int32_t start(size_t b, size_t t, int half) const { return at(b, t).start[half]; }
  TROIKA_INLINE float sum(size_t b, size_t t, int half) const { return at(b, t).sum[half]; }
  TROIKA_INLINE int32_t pair_of_sums(size_t b, size_t t) const { return at(b, t).pair_of_sums; }
};

// Or as they come: to prepare a few tokens would take as long as to multiply them with some rows,
// and nothing is read from memory meanwhile.
template <typename Levels, size_t kRoom>
struct PlainTokens {
  static constexpr bool kAreFew = true;
  static constexpr size_t kCount = kRoom;
  Q8Row rows[kCount] = {};

  TROIKA_INLINE const int32_t& four(size_t b, size_t t, int i) const {
    return reinterpret_cast<const int32_t*>(rows[t].q + b * kQ8Block)[i];
  }
  TROIKA_INLINE float scale(size_t b, size_t t) const { return rows[t].scale[b]; }
  TROIKA_INLINE int32_t whole_sum(size_t b, size_t t, int half) const {
    const int16_t* sums = rows[t].sum + 2 * b;
    return Levels::kGroup == 32 ? sums[0] + sums[1] : sums[half];
  }
  TROIKA_INLINE int32_t start(size_t b, size_t t, int half) const {
    return -Levels::kOffset * whole_sum(b, t, half);
  }
  TROIKA_INLINE float sum(size_t b, size_t t, int half) const {
    return static_cast<float>(whole_sum(b, t, half)) * scale(b, t);
  }
  TROIKA_INLINE int32_t pair_of_sums(size_t b, size_t t) const {
    return load_word<int32_t>(reinterpret_cast<const std::byte*>(rows[t].sum + 2 * b));
  }
};

// There is room for kRoom tokens.
template <Type kType, size_t kRoom>
void multiply_few(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                  size_t x_stride_bytes, float* y, size_t y_stride) {
  PlainTokens<typename Strip<kType>::Levels, kRoom> tokens;
  for (size_t t = 0; t < n_tokens; ++t) tokens.rows[t] = q8_row(x + t * x_stride_bytes, weight.k);
  StripProduct<kType> product;
  for (size_t r = weight.first_row; r < weight.last_row; r += kPanelRows) {
    product.multiply(weight.data + r * weight.row_bytes, weight.k, tokens, n_tokens, y + r,
                     y_stride);
  }
}

template <Type kType>
void multiply_many(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                   size_t x_stride_bytes, float* y, size_t y_stride) {
  using Levels = typename Strip<kType>::Levels;
  const size_t n_fitting = kTokenBlocks / (q8_padded(weight.k) / kQ8Block);
  const size_t most = n_fitting < kMostTokens ? n_fitting : kMostTokens;
  const size_t n_groups = (n_tokens + most - 1) / most;
  TokenBlock blocks[kTokenBlocks];
  StripProduct<kType> product;
  for (size_t group = 0; group < n_groups; ++group) {  // of about the same size
    const size_t t = n_tokens * group / n_groups, n = n_tokens * (group + 1) / n_groups - t;
    prepare_tokens<Levels>(x + t * x_stride_bytes, x_stride_bytes, n, weight.k, blocks);
    const PreparedTokens<Levels> tokens = {blocks, n};
    for (size_t r = weight.first_row; r < weight.last_row; r += kPanelRows) {
      product.multiply(weight.data + r * weight.row_bytes, weight.k, tokens, n,
                       y + t * y_stride + r, y_stride);
    }
  }
}

// `of_rows` multiplies those behind the last whole strip.
template <Type kType>
void multiply_strips(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride, MatmulQ8* of_rows) {
  MatmulWeight strips = weight, rest = weight;
  if (strips.last_row > weight.n_strip_rows) strips.last_row = weight.n_strip_rows;
  if (rest.first_row < weight.n_strip_rows) rest.first_row = weight.n_strip_rows;
  if (strips.first_row < strips.last_row) {
    MatmulQ8* multiply = multiply_many<kType>;
    if constexpr (StripProduct<kType>::kCountsFew) {
      static_assert(kLeastTokens == 5);
      if (n_tokens == 1) multiply = multiply_few<kType, 1>;
      if (n_tokens == 2) multiply = multiply_few<kType, 2>;
      if (n_tokens == 3) multiply = multiply_few<kType, 3>;
      if (n_tokens == 4) multiply = multiply_few<kType, 4>;
    } else if (n_tokens < kLeastTokens) {
      multiply = multiply_few<kType, kLeastTokens - 1>;
    }
    multiply(strips, n_tokens, x, x_stride_bytes, y, y_stride);
  }
  if (rest.first_row < rest.last_row) of_rows(rest, n_tokens, x, x_stride_bytes, y, y_stride);
}
