// Attention of many queries (kernels/prompt_attention.h), written once for all instruction sets;
// after attention.inl.

// Returns e^x for x <= 0 with a relative error of 5e-5, which bfloat16 cannot show. Below -87 the
// result stays at 1e-38. Not-a-number stays.
TROIKA_INLINE inline F weight_of(F x) {
  x = V::max(V::set(-87.0f), x);
  const F n = V::round(V::mul(x, V::set(1.44269504f)));
  const F r = V::fma(n, V::set(-0.693147181f), x);
  F p = V::set(1.0f / 24);
  p = V::fma(p, r, V::set(1.0f / 6));
  p = V::fma(p, r, V::set(0.5f));
  p = V::fma(p, r, V::set(1.0f));
  p = V::fma(p, r, V::set(1.0f));
  return V::mul(p, V::power_of_two(n));
}

float weigh_scores(const float* scores, size_t n, OnlineSoftmax* softmax, uint16_t* weights) {
  const float in_block = largest_of(scores, n);
  const float largest = in_block > softmax->largest ? in_block : softmax->largest;
  const F shift = V::set(largest);
  F sums = V::zero();
  size_t p = 0;
  for (; p + V::kElements <= n; p += V::kElements) {
    const F weight = weight_of(V::sub(V::load(scores + p), shift));
    V::store_bf16(weights + p, weight);
    sums = V::add(sums, weight);
  }
  if (p < n) {
    alignas(64) float rest[V::kElements] = {};
    V::store_part(rest, weight_of(V::sub(V::load_part(scores + p, n - p), shift)), n - p);
    V::store_bf16(weights + p, V::load(rest));
    sums = V::add(sums, V::load(rest));
    p += V::kElements;
  }
  std::memset(weights + p, 0, (kPromptBlock - p) * sizeof(uint16_t));
  const float factor =
      softmax->total > 0 && largest > softmax->largest ? exp_of_one(softmax->largest - largest) : 1;
  softmax->total = softmax->total * factor + V::sum(sums);
  softmax->largest = largest;
  return factor;
}

void raise_largest(const float* scores, size_t stride, const float* minus, size_t n_queries,
                   size_t n, float* largest) {
  constexpr int kTogether = 4;  // counts vectors whose maxima do not wait for each other
  size_t p = 0;
  for (; p + kTogether * V::kElements <= n; p += kTogether * V::kElements) {
    F most[kTogether];
    unrolled<kTogether>([&](auto i)
                            TROIKA_INLINE { most[i] = V::load(largest + p + i * V::kElements); });
    const float* score = scores + p;
    for (size_t q = 0; q < n_queries; ++q, score += stride) {
      const F shift = V::set(minus[q]);
      unrolled<kTogether>([&](auto i) TROIKA_INLINE {
        most[i] = V::max(V::sub(V::load(score + i * V::kElements), shift), most[i]);
      });
    }
    unrolled<kTogether>([&](auto i)
                            TROIKA_INLINE { V::store(largest + p + i * V::kElements, most[i]); });
  }
  for_each_vector(n - p, [&](size_t i, auto load, auto store) TROIKA_INLINE {
    F most = load(largest + p + i);
    const float* score = scores + p + i;
    for (size_t q = 0; q < n_queries; ++q, score += stride) {
      most = V::max(V::sub(load(score), V::set(minus[q])), most);
    }
    store(largest + p + i, most);
  });
}

// Marks from the last query to the first, so that the first query that reaches a position
// overwrites what later ones have marked.
void mark_first(const float* scores, size_t stride, const float* limits, const float* marks,
                size_t n_queries, size_t n, float* first) {
  constexpr int kTogether = 4;
  size_t p = 0;
  for (; p + kTogether * V::kElements <= n; p += kTogether * V::kElements) {
    F found[kTogether];
    unrolled<kTogether>([&](auto i)
                            TROIKA_INLINE { found[i] = V::load(first + p + i * V::kElements); });
    for (size_t q = n_queries; q-- > 0;) {
      const float* const score = scores + q * stride + p;
      const F limit = V::set(limits[q]), mark = V::set(marks[q]);
      unrolled<kTogether>([&](auto i) TROIKA_INLINE {
        found[i] = V::where_above(V::load(score + i * V::kElements), limit, mark, found[i]);
      });
    }
    unrolled<kTogether>([&](auto i)
                            TROIKA_INLINE { V::store(first + p + i * V::kElements, found[i]); });
  }
  for_each_vector(n - p, [&](size_t i, auto load, auto store) TROIKA_INLINE {
    F found = load(first + p + i);
    for (size_t q = n_queries; q-- > 0;) {
      const F score = load(scores + q * stride + p + i);
      found = V::where_above(score, V::set(limits[q]), V::set(marks[q]), found);
    }
    store(first + p + i, found);
  });
}

template <typename Rows>
void load_kv_of(const std::byte* row, float* x, size_t n) {
  for (size_t i = 0; i < n; i += V::kElements) V::store(x + i, Rows::at(row, i));
}

void load_kv(Type type, const std::byte* row, float* x, size_t n) {
  if (n % V::kElements != 0) {
    reference::load_kv(type, row, x, n);
  } else if (type == Type::kF32) {
    load_kv_of<RowsF32>(row, x, n);
  } else if (type == Type::kF16) {
    load_kv_of<RowsF16>(row, x, n);
  } else {
    load_kv_of<RowsQ8_0>(row, x, n);
  }
}

template <typename Rows>
void pack_values_of(const std::byte* const* rows, size_t n, size_t head_size, uint16_t* panel) {
  const size_t depth = bf16_depth(n);
  for (size_t p = 0; p < depth; p += 2) {
    for (size_t i = 0; i < head_size; i += V::kElements) {
      alignas(64) uint16_t even[V::kElements] = {}, odd[V::kElements] = {};
      if (p < n) V::store_bf16(even, Rows::at(rows[p], i));
      if (p + 1 < n) V::store_bf16(odd, Rows::at(rows[p + 1], i));
      uint16_t* line = panel + i / kStripRows * kStripRows * depth + p * kStripRows +
                       i % kStripRows * kBf16LineDepth;
      for (size_t element = 0; element < V::kElements; ++element) {
        line[2 * element] = even[element];
        line[2 * element + 1] = odd[element];
      }
    }
  }
}

void pack_values(Type type, const std::byte* const* rows, size_t n, size_t head_size,
                 uint16_t* panel) {
  if (head_size % kStripRows != 0) {
    reference::pack_values(type, rows, n, head_size, panel);
  } else if (type == Type::kF32) {
    pack_values_of<RowsF32>(rows, n, head_size, panel);
  } else if (type == Type::kF16) {
    pack_values_of<RowsF16>(rows, n, head_size, panel);
  } else {
    pack_values_of<RowsQ8_0>(rows, n, head_size, panel);
  }
}
