// Products of float activations with weights of any type, written once for all instruction sets
// (see math.inl). A stretch of a row is decoded into a buffer in the first-level cache and then
// multiplied with every token of a group.

constexpr size_t kF32Chunk = 256;
constexpr size_t kF32Group = 32;  // counts tokens for which one decoded stretch serves

// Decodes n weights from `bytes` on. Returns where they lie, which may be `bytes` itself.
template <Type kType>
TROIKA_INLINE inline const float* decode_chunk(const std::byte* bytes, size_t n, float* buffer) {
  if constexpr (kType == Type::kF32) {
    return reinterpret_cast<const float*>(bytes);
  } else if constexpr (kType == Type::kF16 || kType == Type::kBF16) {
    size_t i = 0;
    for (; i + V::kElements <= n; i += V::kElements) {
      V::store(buffer + i,
               kType == Type::kF16 ? V::load_f16(bytes + 2 * i) : V::load_bf16(bytes + 2 * i));
    }
    if (i < n) tensor::dequantize_row(kType, bytes + 2 * i, buffer + i, n - i);
    return buffer;
  } else {
    tensor::dequantize_row(kType, bytes, buffer, n);
    return buffer;
  }
}

// The two partial sums of an output: of vectors with even and with odd number.
struct PartialSums {
  F even;
  F odd;
};

template <int kTokens>
TROIKA_INLINE inline void add_products(const float* w, const float* x, size_t x_stride, size_t n,
                                       PartialSums* sums) {
  PartialSums s[kTokens];
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { s[t] = sums[t]; });
  size_t i = 0;
  for (; i + 2 * V::kElements <= n; i += 2 * V::kElements) {
    const F w0 = V::load(w + i), w1 = V::load(w + i + V::kElements);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      s[t].even = V::fma(w0, V::load(x + t * x_stride + i), s[t].even);
      s[t].odd = V::fma(w1, V::load(x + t * x_stride + i + V::kElements), s[t].odd);
    });
  }
  for (; i < n; i += V::kElements) {
    const size_t rest = n - i < V::kElements ? n - i : V::kElements;
    const F w0 = V::load_part(w + i, rest);
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      s[t].even = V::fma(w0, V::load_part(x + t * x_stride + i, rest), s[t].even);
    });
  }
  unrolled<kTokens>([&](auto t) TROIKA_INLINE { sums[t] = s[t]; });
}

template <Type kType>
void matmul_f32(const MatmulWeight& weight, size_t n_tokens, const float* x, size_t x_stride,
                float* y, size_t y_stride) {
  const size_t chunk_bytes = tensor::row_bytes(kType, kF32Chunk);
  for (size_t first = 0; first < n_tokens; first += kF32Group) {
    const size_t n = n_tokens - first < kF32Group ? n_tokens - first : kF32Group;
    const float* tokens = x + first * x_stride;
    for (size_t r = weight.first_row; r < weight.last_row; ++r) {
      PartialSums sums[kF32Group];
      for (size_t t = 0; t < n; ++t) sums[t] = {V::zero(), V::zero()};
      const std::byte* bytes = weight.data + r * weight.row_bytes;
      for (size_t i = 0; i < weight.k; i += kF32Chunk, bytes += chunk_bytes) {
        alignas(64) float buffer[kF32Chunk];
        const size_t length = weight.k - i < kF32Chunk ? weight.k - i : kF32Chunk;
        const float* w = decode_chunk<kType>(bytes, length, buffer);
        size_t t = 0;
        for (; t + 4 <= n; t += 4) {
          add_products<4>(w, tokens + t * x_stride + i, x_stride, length, sums + t);
        }
        for (; t < n; ++t) {
          add_products<1>(w, tokens + t * x_stride + i, x_stride, length, sums + t);
        }
      }
      for (size_t t = 0; t < n; ++t) {
        y[(first + t) * y_stride + r] = V::sum(V::add(sums[t].even, sums[t].odd));
      }
    }
  }
}

// Multiplies float weights with quantised activations, which are decoded a stretch at a time, for
// each row anew: few rows are multiplied so, such as gates that a predictor names.
template <Type kType>
void matmul_q8_float(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                     size_t x_stride_bytes, float* y, size_t y_stride) {
  const size_t chunk_bytes = tensor::row_bytes(kType, kF32Chunk);
  for (size_t t = 0; t < n_tokens; ++t) {
    const Q8Row token = q8_row(x + t * x_stride_bytes, weight.k);
    for (size_t r = weight.first_row; r < weight.last_row; ++r) {
      PartialSums sums = {V::zero(), V::zero()};
      const std::byte* bytes = weight.data + r * weight.row_bytes;
      for (size_t i = 0; i < weight.k; i += kF32Chunk, bytes += chunk_bytes) {
        alignas(64) float buffer[kF32Chunk], decoded[kF32Chunk];
        const size_t length = weight.k - i < kF32Chunk ? weight.k - i : kF32Chunk;
        const float* w = decode_chunk<kType>(bytes, length, buffer);
        for (size_t j = 0; j < kF32Chunk; j += V::kElements) {
          const auto* q = reinterpret_cast<const std::byte*>(token.q + i + j);
          V::store(decoded + j, V::mul(V::load_i8(q), V::set(token.scale[(i + j) / kQ8Block])));
        }
        add_products<1>(w, decoded, 0, length, &sums);
      }
      y[t * y_stride + r] = V::sum(V::add(sums.even, sums.odd));
    }
  }
}
