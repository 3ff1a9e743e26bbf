// Walks a product of weights in strips (tensor/strips.h) with quantised activations. The arithmetic
// of a strip is each instruction set's own: after
//   template <Type kType> struct StripProduct, whose
//     multiply(strip, k, tokens, n_tokens, y, y_stride)   writes the outputs of a strip and of
//                   kGroupTokens or fewer
//     kCountsFew    whether it wants numbers of few tokens as constants
// `tokens` comes by value: what is written meanwhile cannot change a copy, and its addresses stay
// in registers.
//
// Few tokens are taken as they come: to prepare them would take as long as to multiply them with
// some rows, and nothing is read from memory meanwhile.
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
    return Levels::kGroup == kQ8Block ? sums[0] + sums[1] : sums[half];
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

template <typename Product, typename Tokens>
TROIKA_INLINE inline void multiply_rows(const MatmulWeight& weight, const Tokens& tokens,
                                        size_t n_tokens, float* y, size_t y_stride,
                                        Product* product) {
  for (size_t r = weight.first_row; r < weight.last_row; r += kStripRows) {
    product->multiply(weight.data + r * weight.row_bytes, weight.k, tokens, n_tokens, y + r,
                      y_stride);
  }
}

// Multiplies few tokens, for which kRoom is enough.
template <Type kType, size_t kRoom>
void multiply_few(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                  size_t x_stride_bytes, float* y, size_t y_stride) {
  PlainTokens<typename Strip<kType>::Levels, kRoom> tokens;
  for (size_t t = 0; t < n_tokens; ++t) tokens.rows[t] = q8_row(x + t * x_stride_bytes, weight.k);
  StripProduct<kType> product;
  multiply_rows(weight, tokens, n_tokens, y, y_stride, &product);
}

template <Type kType>
void multiply_many(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                   size_t x_stride_bytes, float* y, size_t y_stride) {
  // Where rows are too long for the room of prepared tokens, tokens are taken as they come.
  if (n_token_blocks(weight.k) > kTokenBlocks) {
    constexpr size_t kRoom = StripProduct<kType>::kCountsFew ? 1 : kLeastTokens - 1;
    for (size_t t = 0; t < n_tokens; ++t) {
      multiply_few<kType, kRoom>(weight, 1, x + t * x_stride_bytes, x_stride_bytes,
                                 y + t * y_stride, y_stride);
    }
    return;
  }
  StripProduct<kType> product;
  with_prepared_tokens<typename Strip<kType>::Levels>(
      x, x_stride_bytes, n_tokens, weight.k, [&](const PreparedTokens& tokens, size_t first) {
        multiply_rows(weight, tokens, tokens.n_tokens, y + first * y_stride, y_stride, &product);
      });
}

// Multiplies tokens that are prepared. All rows meet one group after the other, because the rows
// that a worker takes at a time stay in the second-level cache.
template <Type kType>
void multiply_spread(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x, float* y,
                     size_t y_stride) {
  const TokenGroups groups = {n_tokens};
  const size_t n_blocks = n_token_blocks(weight.k);
  StripProduct<kType> product;
  for (size_t group = 0; group < groups.count(); ++group) {
    const size_t first = groups.first(group), n = groups.size(group);
    multiply_rows(weight, PreparedTokens{x + first * n_blocks, n}, n, y + first * y_stride,
                  y_stride, &product);
  }
}

// Multiplies rows in strips; `of_rows` multiplies the rows behind the last whole strip.
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
