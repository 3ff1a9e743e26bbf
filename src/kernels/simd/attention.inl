// Attention of one token over cached keys and values, written once for all instruction sets (see
// math.inl). The visible positions are walked in blocks of kAttentionBlock with a running maximum
// (online softmax), so that a result depends on the list alone.
//
// Each key and value is loaded once for the query heads that share it. A sum over the elements of a
// head has one partial sum for each element; those of four positions are added up together.

constexpr int kHeadGroup = 8;  // counts query heads that go through the cache together
constexpr int kQuad = 4;       // counts positions whose scores are computed together
// Counts the query heads for which a quad of scores, or two vectors of values, fits the registers.
constexpr int kScoreHeads = V::kRegisters >= 32 ? 6 : 2;
constexpr int kValueHeads = V::kRegisters >= 32 ? 8 : 4;

// How rows of each cache type become vectors of floats; i is a multiple of V::kElements. `part`
// loads the first n elements of a vector; the others are 0.
struct RowsF32 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) {
    return V::load(reinterpret_cast<const float*>(row) + i);
  }
  TROIKA_INLINE static F part(const std::byte* row, size_t i, size_t n) {
    return V::load_part(reinterpret_cast<const float*>(row) + i, n);
  }
};
struct RowsF16 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) { return V::load_f16(row + 2 * i); }
  TROIKA_INLINE static F part(const std::byte* row, size_t i, size_t n) {
    std::byte elements[2 * V::kElements] = {};
    std::memcpy(elements, row + 2 * i, 2 * n);
    return V::load_f16(elements);
  }
};
struct RowsQ8_0 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) {
    const std::byte* block = row + i / 32 * sizeof(tensor::BlockQ8_0);
    return V::mul(V::set(V::f16(block)), V::load_i8(block + 2 + i % 32));
  }
  // Whole blocks have whole vectors.
  TROIKA_INLINE static F part(const std::byte*, size_t, size_t) { return V::zero(); }
};

// Divides n heads into groups of 8, 6, 4, 2 and 1, none larger than kMost, and calls
// body(first, count) for each, the count as a constant.
template <int kMost, typename Body>
TROIKA_INLINE inline void in_groups(int n, Body body) {
  size_t first = 0;
  const auto take = [&](auto count) TROIKA_INLINE {
    if constexpr (count <= kMost) {
      for (; n >= count; n -= count, first += count) body(first, count);
    }
  };
  take(std::integral_constant<int, 8>());
  take(std::integral_constant<int, 6>());
  take(std::integral_constant<int, 4>());
  take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 1>());
}

// Some positions that are computed together: pointers to the rows, and the scores of each head.
struct AttentionBlock {
  size_t n;
  const std::byte* k[kAttentionBlock];  // the last row stands again up to a whole quad
  const std::byte* v[kAttentionBlock];
  const std::byte* next_k[kAttentionBlock];  // rows of the following block, which are fetched early
  alignas(64) float scores[kHeadGroup][kAttentionBlock];
};

// Fetches a row into the second-level cache.
TROIKA_INLINE inline void fetch_row(const std::byte* row, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
}

// Computes q . k for kHeads heads and a quad of positions.
template <typename Rows, int kHeads>
TROIKA_INLINE inline void score_quad(const float* q, size_t q_stride, size_t head_size,
                                     const std::byte* const* rows, float (*scores)[kAttentionBlock],
                                     size_t p) {
  F sums[kHeads][kQuad];
  unrolled<kHeads>([&](auto h) TROIKA_INLINE {
    unrolled<kQuad>([&](auto j) TROIKA_INLINE { sums[h][j] = V::zero(); });
  });
  size_t i = 0;
  for (; i + V::kElements <= head_size; i += V::kElements) {
    F k[kQuad];
    unrolled<kQuad>([&](auto j) TROIKA_INLINE { k[j] = Rows::at(rows[j], i); });
    unrolled<kHeads>([&](auto h) TROIKA_INLINE {
      const F qs = V::load(q + h * q_stride + i);
      unrolled<kQuad>([&](auto j) TROIKA_INLINE { sums[h][j] = V::fma(qs, k[j], sums[h][j]); });
    });
  }
  if (const size_t rest = head_size - i; rest > 0) {
    F k[kQuad];
    unrolled<kQuad>([&](auto j) TROIKA_INLINE { k[j] = Rows::part(rows[j], i, rest); });
    unrolled<kHeads>([&](auto h) TROIKA_INLINE {
      const F qs = V::load_part(q + h * q_stride + i, rest);
      unrolled<kQuad>([&](auto j) TROIKA_INLINE { sums[h][j] = V::fma(qs, k[j], sums[h][j]); });
    });
  }
  unrolled<kHeads>([&](auto h) TROIKA_INLINE { V::store_sums(scores[h] + p, sums[h]); });
}

template <typename Rows>
void score_keys(const Attention& args, const float* q, int n_heads, AttentionBlock& block) {
  const size_t k_bytes = tensor::row_bytes(args.k.type, args.head_size);
  const size_t v_bytes = tensor::row_bytes(args.v.type, args.head_size);
  for (size_t p = 0; p < block.n; p += kQuad) {
    for (size_t j = p; j < p + kQuad && j < block.n; ++j) {
      fetch_row(block.v[j], v_bytes);
      fetch_row(block.next_k[j], k_bytes);
    }
    in_groups<kScoreHeads>(n_heads, [&](size_t h, auto count) TROIKA_INLINE {
      score_quad<Rows, count>(q + h * args.q_stride, args.q_stride, args.head_size, block.k + p,
                              block.scores + h, p);
    });
  }
}

// Adds the weighed values of the block to out, for kColumns vectors of each head from the i-th
// element on.
template <typename Rows, int kHeads, int kColumns>
TROIKA_INLINE inline void add_columns(float* out, size_t out_stride, size_t i,
                                      const AttentionBlock& block,
                                      const float (*weights)[kAttentionBlock]) {
  F sums[kHeads][kColumns];
  unrolled<kHeads>([&](auto h) TROIKA_INLINE {
    unrolled<kColumns>([&](auto j) TROIKA_INLINE {
      sums[h][j] = V::load(out + h * out_stride + i + j * V::kElements);
    });
  });
  for (size_t p = 0; p < block.n; ++p) {
    F v[kColumns];
    unrolled<kColumns>([&](auto j)
                           TROIKA_INLINE { v[j] = Rows::at(block.v[p], i + j * V::kElements); });
    unrolled<kHeads>([&](auto h) TROIKA_INLINE {
      const F weight = V::set(weights[h][p]);
      unrolled<kColumns>([&](auto j)
                             TROIKA_INLINE { sums[h][j] = V::fma(weight, v[j], sums[h][j]); });
    });
  }
  unrolled<kHeads>([&](auto h) TROIKA_INLINE {
    unrolled<kColumns>([&](auto j) TROIKA_INLINE {
      V::store(out + h * out_stride + i + j * V::kElements, sums[h][j]);
    });
  });
}

// Adds the weighed values of the block to the last `rest` elements of each head, fewer than a
// vector has.
template <typename Rows, int kHeads>
TROIKA_INLINE inline void add_last_columns(float* out, size_t out_stride, size_t i, size_t rest,
                                           const AttentionBlock& block,
                                           const float (*weights)[kAttentionBlock]) {
  F sums[kHeads];
  unrolled<kHeads>([&](auto h)
                       TROIKA_INLINE { sums[h] = V::load_part(out + h * out_stride + i, rest); });
  for (size_t p = 0; p < block.n; ++p) {
    const F v = Rows::part(block.v[p], i, rest);
    unrolled<kHeads>([&](auto h)
                         TROIKA_INLINE { sums[h] = V::fma(V::set(weights[h][p]), v, sums[h]); });
  }
  unrolled<kHeads>([&](auto h)
                       TROIKA_INLINE { V::store_part(out + h * out_stride + i, sums[h], rest); });
}

template <typename Rows, int kHeads>
void add_values_of(float* out, size_t out_stride, size_t head_size, const AttentionBlock& block,
                   const float (*weights)[kAttentionBlock]) {
  size_t i = 0;
  for (; i + 2 * V::kElements <= head_size; i += 2 * V::kElements) {
    add_columns<Rows, kHeads, 2>(out, out_stride, i, block, weights);
  }
  if (i + V::kElements <= head_size) {
    add_columns<Rows, kHeads, 1>(out, out_stride, i, block, weights);
    i += V::kElements;
  }
  if (i < head_size) {
    add_last_columns<Rows, kHeads>(out, out_stride, i, head_size - i, block, weights);
  }
}

template <typename Rows>
void add_values(float* out, size_t out_stride, size_t head_size, int n_heads,
                const AttentionBlock& block) {
  in_groups<kValueHeads>(n_heads, [&](size_t h, auto count) TROIKA_INLINE {
    add_values_of<Rows, count>(out + h * out_stride, out_stride, head_size, block,
                               block.scores + h);
  });
}

// The maximum and the sum of a head so far.
struct Running {
  float largest = -__builtin_inff();
  float total = 0;
};

TROIKA_INLINE inline float exp_of_one(float x) {
  float elements[V::kElements];
  V::store(elements, exp_of(V::set(x)));
  return elements[0];
}

// Turns the products of one head into weights, and scales earlier sums to the new maximum.
void weigh(const Attention& args, float* scores, size_t n, Running& running, float* out) {
  scale(scores, args.scale, scores, n);
  if (args.soft_cap > 0) {
    const F inverse = V::set(1.0f / args.soft_cap), cap = V::set(args.soft_cap);
    apply(scores, scores, n,
          [&](auto s) TROIKA_INLINE { return V::mul(cap, tanh_of(V::mul(s, inverse))); });
  }
  const float in_block = largest_of(scores, n);
  const float largest = in_block > running.largest ? in_block : running.largest;
  F sums = V::zero();
  for_each_vector(n, [&](size_t p, auto load, auto store) TROIKA_INLINE {
    store(scores + p, exp_of(V::sub(load(scores + p), V::set(largest))));
    sums = V::add(sums, load(scores + p));
  });
  if (running.total > 0 && largest > running.largest) {
    const float factor = exp_of_one(running.largest - largest);
    running.total *= factor;
    scale(out, factor, out, args.head_size);
  }
  running.total += V::sum(sums);
  running.largest = largest;
}

// The functions of one pair of cache types.
struct CacheFunctions {
  void (*score_keys)(const Attention& args, const float* q, int n_heads, AttentionBlock& block);
  void (*add_values)(float* out, size_t out_stride, size_t head_size, int n_heads,
                     const AttentionBlock& block);
};

CacheFunctions functions_for(const Attention& args) {
  const auto index = [](Type type) { return type == Type::kF32 ? 0 : type == Type::kF16 ? 1 : 2; };
  static constexpr decltype(CacheFunctions::score_keys) kScores[] = {
      score_keys<RowsF32>, score_keys<RowsF16>, score_keys<RowsQ8_0>};
  static constexpr decltype(CacheFunctions::add_values) kValues[] = {
      add_values<RowsF32>, add_values<RowsF16>, add_values<RowsQ8_0>};
  return {kScores[index(args.k.type)], kValues[index(args.v.type)]};
}

// Computes one segment for up to kHeadGroup heads. The weighed values go to `out`, not yet divided
// by the totals.
void attend(const Attention& args, const float* q, int n_heads, size_t segment, Running* running,
            float* out, size_t out_stride) {
  const CacheFunctions functions = functions_for(args);
  for (int h = 0; h < n_heads; ++h) {
    std::memset(out + static_cast<size_t>(h) * out_stride, 0, args.head_size * sizeof(float));
    running[h] = Running();
  }
  const size_t n = args.prefix.size() + args.own.size();
  const size_t begin = segment * kAttentionSegment;
  const size_t end = begin + kAttentionSegment < n ? begin + kAttentionSegment : n;
  AttentionBlock block;
  for (size_t first = begin; first < end; first += kAttentionBlock) {
    block.n = end - first < kAttentionBlock ? end - first : kAttentionBlock;
    for (size_t p = 0; p < block.n; ++p) {
      const uint32_t slot = visible_slot(args, first + p);
      block.k[p] = first == begin ? kv_row(args.k, slot) : block.next_k[p];
      block.v[p] = kv_row(args.v, slot);
    }
    for (size_t p = 0; p < block.n; ++p) {
      const size_t next = first + kAttentionBlock + p;
      block.next_k[p] = next < n ? kv_row(args.k, visible_slot(args, next)) : block.k[p];
    }
    for (size_t p = block.n; p % kQuad != 0; ++p) block.k[p] = block.k[block.n - 1];
    functions.score_keys(args, q, n_heads, block);
    for (int h = 0; h < n_heads; ++h) {
      weigh(args, block.scores[h], block.n, running[h], out + static_cast<size_t>(h) * out_stride);
    }
    functions.add_values(out, out_stride, args.head_size, n_heads, block);
  }
}

// Adds a segment to those before it.
void add_segment(const Running& theirs, const float* part, Running& mine, float* out, size_t n) {
  const float largest = theirs.largest > mine.largest ? theirs.largest : mine.largest;
  const float factor = exp_of_one(mine.largest - largest);
  const float their_factor = exp_of_one(theirs.largest - largest);
  const F factors = V::set(factor), their_factors = V::set(their_factor);
  combine(out, part, out, n, [&](auto a, auto b) TROIKA_INLINE {
    return V::fma(b, their_factors, V::mul(a, factors));
  });
  mine.total = mine.total * factor + theirs.total * their_factor;
  mine.largest = largest;
}

// Says whether these kernels compute such a head. Where vectors are long, heads that they do not
// divide are left to shorter ones, which leave less of the last vector empty.
bool covers(const Attention& args) {
  constexpr bool kIsShortest = V::kElements <= 8;
  return (kIsShortest || args.head_size % V::kElements == 0) && args.head_size <= kMaxHeadSize;
}

// REQUIRES: covers(args).
void attend_token(const Attention& args) {
  const size_t n_segments = n_attention_segments(args);
  for (uint32_t first = 0; first < args.n_heads; first += kHeadGroup) {
    const int n =
        static_cast<int>(args.n_heads - first < kHeadGroup ? args.n_heads - first : kHeadGroup);
    const float* q = args.q + first * args.q_stride;
    float* out = args.out + first * args.out_stride;
    Running running[kHeadGroup], others[kHeadGroup];
    attend(args, q, n, 0, running, out, args.out_stride);
    for (size_t s = 1; s < n_segments; ++s) {
      alignas(64) float part[kHeadGroup * kMaxHeadSize];
      attend(args, q, n, s, others, part, args.head_size);
      for (size_t h = 0; h < static_cast<size_t>(n); ++h) {
        add_segment(others[h], part + h * args.head_size, running[h], out + h * args.out_stride,
                    args.head_size);
      }
    }
    for (size_t h = 0; h < static_cast<size_t>(n) && n_segments > 0; ++h) {
      float* o = out + h * args.out_stride;
      scale(o, 1.0f / running[h].total, o, args.head_size);
    }
  }
}

void attention_or(const Attention& args, void (*slower)(const Attention&)) {
  if (!covers(args)) return slower(args);
  attend_token(args);
}

void attention_segment_or(const Attention& args, size_t segment, float* part,
                          void (*slower)(const Attention&, size_t, float*)) {
  if (!covers(args)) return slower(args, segment, part);
  const size_t stride = attention_part_floats(args.head_size);
  for (uint32_t first = 0; first < args.n_heads; first += kHeadGroup) {
    const int n =
        static_cast<int>(args.n_heads - first < kHeadGroup ? args.n_heads - first : kHeadGroup);
    Running running[kHeadGroup];
    float* head = part + first * stride;
    attend(args, args.q + first * args.q_stride, n, segment, running, head + 2, stride);
    for (int h = 0; h < n; ++h, head += stride) {
      head[0] = running[h].largest;
      head[1] = running[h].total;
    }
  }
}

void attention_merge_or(const Attention& args, const float* parts,
                        void (*slower)(const Attention&, const float*)) {
  if (!covers(args)) return slower(args, parts);
  const size_t part_floats = attention_part_floats(args.head_size);
  for (uint32_t h = 0; h < args.n_heads; ++h) {
    float* out = args.out + h * args.out_stride;
    std::memset(out, 0, args.head_size * sizeof(float));
    Running running;
    for (size_t s = 0; s < n_attention_segments(args); ++s) {
      const float* part = parts + (s * args.n_heads + h) * part_floats;
      if (s == 0) {
        std::memcpy(out, part + 2, args.head_size * sizeof(float));
        running = {part[0], part[1]};
      } else {
        add_segment({part[0], part[1]}, part + 2, running, out, args.head_size);
      }
    }
    if (running.total > 0) scale(out, 1.0f / running.total, out, args.head_size);
  }
}
