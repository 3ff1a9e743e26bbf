// Attention of one token over cached keys and values, written once for all instruction sets (see
// math.inl). The visible positions are walked in blocks of kAttentionBlock with a running maximum
// (online softmax), so that a result depends on the list alone.

constexpr int kHeadGroup = 8;  // query heads that share each loaded key: limited by registers

// How rows of each cache type become vectors of floats; i is a multiple of V::kLanes.
struct RowsF32 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) {
    return V::load(reinterpret_cast<const float*>(row) + i);
  }
};
struct RowsF16 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) { return V::load_f16(row + 2 * i); }
};
struct RowsQ8_0 {
  TROIKA_INLINE static F at(const std::byte* row, size_t i) {
    const std::byte* block = row + i / 32 * sizeof(tensor::BlockQ8_0);
    return V::mul(V::set(V::f16(block)), V::load_i8(block + 2 + i % 32));
  }
};

// One block of positions: pointers to their rows, and the scores of each head.
struct AttentionBlock {
  size_t n;
  const std::byte* k[kAttentionBlock];
  const std::byte* v[kAttentionBlock];
  alignas(64) float scores[kHeadGroup][kAttentionBlock];
};

template <typename Rows, int kHeads>
void score_keys(const Attention& args, const float* q, AttentionBlock& block) {
  for (size_t p = 0; p < block.n; ++p) {
    F sums[kHeads];
    unrolled<kHeads>([&](auto h) TROIKA_INLINE { sums[h] = V::zero(); });
    for (size_t i = 0; i < args.head_size; i += V::kLanes) {
      const F k = Rows::at(block.k[p], i);
      unrolled<kHeads>([&](auto h) TROIKA_INLINE {
        sums[h] = V::fma(V::load(q + h * args.q_stride + i), k, sums[h]);
      });
    }
    unrolled<kHeads>([&](auto h)
                         TROIKA_INLINE { block.scores[h][p] = V::sum(sums[h]) * args.scale; });
  }
}

template <typename Rows, int kHeads>
void add_values(const Attention& args, float* out, const AttentionBlock& block) {
  for (size_t i = 0; i < args.head_size; i += V::kLanes) {
    F sums[kHeads];
    unrolled<kHeads>([&](auto h)
                         TROIKA_INLINE { sums[h] = V::load(out + h * args.out_stride + i); });
    for (size_t p = 0; p < block.n; ++p) {
      const F v = Rows::at(block.v[p], i);
      unrolled<kHeads>(
          [&](auto h) TROIKA_INLINE { sums[h] = V::fma(V::set(block.scores[h][p]), v, sums[h]); });
    }
    unrolled<kHeads>([&](auto h)
                         TROIKA_INLINE { V::store(out + h * args.out_stride + i, sums[h]); });
  }
}

// Maximum and sum of a head so far.
struct Running {
  float largest = -__builtin_inff();
  float total = 0;
};

// Turns the scores of one head into weights, and scales what was summed before to the new maximum.
void weigh(const Attention& args, float* scores, size_t n, Running& running, float* out) {
  if (args.soft_cap > 0) {
    const F inverse = V::set(1.0f / args.soft_cap), cap = V::set(args.soft_cap);
    apply(scores, scores, n,
          [&](auto s) TROIKA_INLINE { return V::mul(cap, tanh_of(V::mul(s, inverse))); });
  }
  const float in_block = largest_of(scores, n);
  const float largest = in_block > running.largest ? in_block : running.largest;
  F sums = V::zero();
  size_t p = 0;
  for (; p < n; p += V::kLanes) {
    const size_t rest = n - p < V::kLanes ? n - p : V::kLanes;
    V::store_part(scores + p, exp_of(V::sub(V::load_part(scores + p, rest), V::set(largest))),
                  rest);
    sums = V::add(sums, V::load_part(scores + p, rest));
  }
  if (running.total > 0 && largest > running.largest) {
    float factor[V::kLanes];
    V::store(factor, exp_of(V::set(running.largest - largest)));
    running.total *= factor[0];
    scale(out, factor[0], out, args.head_size);
  }
  running.total += V::sum(sums);
  running.largest = largest;
}

template <typename KeyRows, typename ValueRows, int kHeads>
void attend(const Attention& args, uint32_t first_head) {
  const float* q = args.q + first_head * args.q_stride;
  float* out = args.out + first_head * args.out_stride;
  for (int h = 0; h < kHeads; ++h) {
    std::memset(out + h * args.out_stride, 0, args.head_size * sizeof(float));
  }
  Running running[kHeads];
  const size_t n = args.prefix.size() + args.own.size();
  AttentionBlock block;
  for (size_t first = 0; first < n; first += kAttentionBlock) {
    block.n = n - first < kAttentionBlock ? n - first : kAttentionBlock;
    for (size_t p = 0; p < block.n; ++p) {
      const uint32_t slot = visible_slot(args, first + p);
      block.k[p] = kv_row(args.k, slot);
      block.v[p] = kv_row(args.v, slot);
    }
    score_keys<KeyRows, kHeads>(args, q, block);
    for (int h = 0; h < kHeads; ++h) {
      weigh(args, block.scores[h], block.n, running[h], out + h * args.out_stride);
    }
    add_values<ValueRows, kHeads>(args, out, block);
  }
  for (int h = 0; h < kHeads && n > 0; ++h) {
    float* o = out + h * args.out_stride;
    scale(o, 1.0f / running[h].total, o, args.head_size);
  }
}

template <typename KeyRows, typename ValueRows>
void attend_all(const Attention& args) {
  uint32_t h = 0;
  for (; h + 8 <= args.n_heads; h += 8) attend<KeyRows, ValueRows, 8>(args, h);
  for (; h + 4 <= args.n_heads; h += 4) attend<KeyRows, ValueRows, 4>(args, h);
  for (; h + 2 <= args.n_heads; h += 2) attend<KeyRows, ValueRows, 2>(args, h);
  for (; h < args.n_heads; ++h) attend<KeyRows, ValueRows, 1>(args, h);
}

template <typename KeyRows>
void attend_values(const Attention& args) {
  switch (args.v.type) {
    case Type::kF32:
      return attend_all<KeyRows, RowsF32>(args);
    case Type::kF16:
      return attend_all<KeyRows, RowsF16>(args);
    case Type::kQ8_0:
      return attend_all<KeyRows, RowsQ8_0>(args);
    default:
      TROIKA_ASSERT(false);
  }
}

// Head sizes that are no multiple of the vector length go to `slower`.
void attention_or(const Attention& args, void (*slower)(const Attention&)) {
  if (args.head_size % V::kLanes != 0) return slower(args);
  switch (args.k.type) {
    case Type::kF32:
      return attend_values<RowsF32>(args);
    case Type::kF16:
      return attend_values<RowsF16>(args);
    case Type::kQ8_0:
      return attend_values<RowsQ8_0>(args);
    default:
      TROIKA_ASSERT(false);
  }
}
