// Attention of tokens that walk one list together (AttentionTile), written once for all instruction
// sets; after attention.inl.
//
// The keys and values of a block become floats once for all queries, in the order in which they are
// multiplied. Which queries share registers changes no sum: each score is a sum of its own, values
// are added in the order of the positions, and between them stands the softmax of a single token.

// Counts the queries for which a quad of scores, or two vectors of values, fits the registers.
constexpr size_t kTileScores = V::kRegisters >= 32 ? 6 : 3;
constexpr size_t kTileValues = V::kRegisters >= 32 ? 12 : 6;
static_assert(kTilePass % kTileScores == 0 && kTilePass % kTileValues == 0);
// With fewer queries unpacking costs more than it saves.
constexpr size_t kFewestTileQueries = 8;
constexpr size_t kTilePair =
    2 * V::kElements;  // counts elements of a head that are added up together
static_assert(kTilePair <= kTilePadding);

// Scores kTileScores queries with a quad of positions. `quad` holds the vectors of all four side by
// side.
void score_tile(const float* q, size_t q_stride, const float* quad, size_t head_size,
                float* scores) {
  F sums[kTileScores][kQuad];
  unrolled<kTileScores>([&](auto h) TROIKA_INLINE {
    unrolled<kQuad>([&](auto j) TROIKA_INLINE { sums[h][j] = V::zero(); });
  });
  for (size_t i = 0; i < head_size; i += V::kElements) {
    F qs[kTileScores];
    unrolled<kTileScores>([&](auto h) TROIKA_INLINE { qs[h] = V::load(q + h * q_stride + i); });
    unrolled<kQuad>([&](auto j) TROIKA_INLINE {
      const F k = V::load(quad + i * kQuad + j * V::kElements);
      unrolled<kTileScores>([&](auto h)
                                TROIKA_INLINE { sums[h][j] = V::fma(qs[h], k, sums[h][j]); });
    });
  }
  unrolled<kTileScores>([&](auto h)
                            TROIKA_INLINE { V::store_sums(scores + h * kTileRows, sums[h]); });
}

// Adds n weighed values to two vectors of kTileValues queries.
void add_tile(float* sums, size_t stride, const float* values, const float* weights, size_t n) {
  F mine[kTileValues][2];
  unrolled<kTileValues>([&](auto h) TROIKA_INLINE {
    mine[h][0] = V::load(sums + h * stride);
    mine[h][1] = V::load(sums + h * stride + V::kElements);
  });
  for (size_t p = 0; p < n; ++p, values += kTilePair, ++weights) {
    const F left = V::load(values), right = V::load(values + V::kElements);
    unrolled<kTileValues>([&](auto h) TROIKA_INLINE {
      const F weight = V::set(weights[h * kTileRows]);
      mine[h][0] = V::fma(weight, left, mine[h][0]);
      mine[h][1] = V::fma(weight, right, mine[h][1]);
    });
  }
  unrolled<kTileValues>([&](auto h) TROIKA_INLINE {
    V::store(sums + h * stride, mine[h][0]);
    V::store(sums + h * stride + V::kElements, mine[h][1]);
  });
}

// Writes a row as floats. Pairs of vectors stand pair_stride floats apart, their halves
// half_stride. What is missing of the last pair becomes zero.
template <typename Rows>
void widen_row(const std::byte* row, size_t head_size, float* to, size_t pair_stride,
               size_t half_stride) {
  const auto at = [&](size_t i) TROIKA_INLINE {
    return i + V::kElements <= head_size ? Rows::at(row, i)
           : i < head_size               ? Rows::part(row, i, head_size - i)
                                         : V::zero();
  };
  for (size_t i = 0; i < head_size; i += kTilePair, to += pair_stride) {
    V::store(to, at(i));
    V::store(to + half_stride, at(i + V::kElements));
  }
}

using WidenRow = void(const std::byte* row, size_t head_size, float* to, size_t pair_stride,
                      size_t half_stride);

WidenRow* widen_for(Type type) {
  return type == Type::kF32   ? widen_row<RowsF32>
         : type == Type::kF16 ? widen_row<RowsF16>
                              : widen_row<RowsQ8_0>;
}

// Names positions of a block's rows.
struct TileRange {
  size_t begin, end;
};

// Walks the list with tokens that fit a workspace. The b-th block of a token begins b blocks behind
// the first position that it sees. The current rows are those that the tokens see in their b-th
// blocks.
class TileWalk {
 public:
  TileWalk(const AttentionTile& tile, size_t first, size_t last)
      : tile_(tile),
        args_(tile.first),
        first_(first),
        n_tokens_(last - first),
        n_heads_(args_.n_heads),
        n_queries_(n_tokens_ * n_heads_),
        stride_((args_.head_size + kTilePair - 1) / kTilePair * kTilePair),
        keys_(tile.workspace),
        values_(keys_ + kTileRows * stride_),
        queries_(values_ + kTileRows * stride_),
        sums_(queries_ + kTileBuffers * stride_),
        scores_(sums_ + kTileBuffers * stride_) {}

  void run() {
    take_queries();
    size_t most_seen = 0;
    for (size_t t = 0; t < n_tokens_; ++t)
      most_seen = n_seen(t) > most_seen ? n_seen(t) : most_seen;
    const size_t n_blocks = (most_seen + kAttentionBlock - 1) / kAttentionBlock;
    // Behind the shared blocks, tokens that branch see rows of their own.
    const size_t n_shared =
        tile_.branches.empty() ? n_blocks : args_.prefix.size() / kAttentionBlock;
    constexpr size_t kBlocks = kAttentionSegment / kAttentionBlock;
    for (size_t b = 0; b < n_blocks; ++b) {
      if (b % kBlocks == 0) begin_segment();
      if (b < n_shared) {
        together_in(b);
      } else {
        one_by_one_in(b);
      }
      if (b % kBlocks == kBlocks - 1 || b + 1 == n_blocks) end_segment(b / kBlocks);
    }
    divide();
  }

 private:
  const SeenPositions& seen(size_t token) const { return tile_.seen[first_ + token]; }
  size_t n_seen(size_t token) const { return seen(token).last - seen(token).first; }
  float* out_of(size_t query) const {
    return args_.out + (first_ + query / n_heads_) * tile_.out_token_stride +
           query % n_heads_ * args_.out_stride;
  }
  // Returns which of the current rows a query sees.
  TileRange range_of(size_t query) const {
    const SeenPositions& positions = seen(query / n_heads_);
    const size_t begin = positions.first - seen(seeing_).first;
    const size_t rest = positions.last - positions.first - behind_;
    return {begin, begin + (rest < kAttentionBlock ? rest : kAttentionBlock)};
  }

  void together_in(size_t block) {
    behind_ = block * kAttentionBlock;
    seeing_ = 0;
    while (n_seen(seeing_) <= behind_) ++seeing_;
    take_rows(n_tokens_ - 1);
    for (size_t q = seeing_ * n_heads_; q < n_queries_; q += kTilePass) {
      const size_t last = q + kTilePass < n_queries_ ? q + kTilePass : n_queries_;
      weigh_pass(q, last);
      add_values_of_pass(q, last);
    }
  }

  void one_by_one_in(size_t block) {
    behind_ = block * kAttentionBlock;
    for (seeing_ = 0; seeing_ < n_tokens_; ++seeing_) {
      if (n_seen(seeing_) <= behind_) continue;
      take_rows(seeing_);
      const size_t end = (seeing_ + 1) * n_heads_;
      for (size_t q = seeing_ * n_heads_; q < end; q += kTilePass) {
        const size_t last = q + kTilePass < end ? q + kTilePass : end;
        weigh_pass(q, last);
        // A pass of several queries would add to the sums of the tokens behind this one.
        for (size_t i = q; i < last; ++i) add_alone(i, q, range_of(i));
      }
    }
  }

  // Copies the queries. The rows behind the last query are multiplied along with it.
  void take_queries() {
    for (size_t q = 0; q < n_queries_; ++q) {
      const float* from =
          args_.q + (first_ + q / n_heads_) * tile_.q_token_stride + q % n_heads_ * args_.q_stride;
      std::memcpy(queries_ + q * stride_, from, args_.head_size * sizeof(float));
      std::memset(queries_ + q * stride_ + args_.head_size, 0,
                  (stride_ - args_.head_size) * sizeof(float));
    }
    std::memset(queries_ + n_queries_ * stride_, 0,
                (kTileBuffers - n_queries_) * stride_ * sizeof(float));
  }

  void begin_segment() {
    std::memset(sums_, 0, kTileBuffers * stride_ * sizeof(float));
    for (size_t q = 0; q < n_queries_; ++q) running_[q] = Running();
  }

  uint32_t slot_of(size_t token, size_t position) const {
    if (tile_.branches.empty() || position < args_.prefix.size()) {
      return visible_slot(args_, position);
    }
    return tile_.branches[first_ + token][position - args_.prefix.size()];
  }

  // Copies the current rows, as far as this token sees them.
  void take_rows(size_t token) {
    const size_t begin = seen(seeing_).first + behind_;
    const size_t n = range_of(token * n_heads_).end;
    WidenRow* const widen_key = widen_for(args_.k.type);
    WidenRow* const widen_value = widen_for(args_.v.type);
    for (size_t p = 0; p < n; ++p) {
      const uint32_t slot = slot_of(token, begin + p);
      float* key = keys_ + p / kQuad * kQuad * stride_ + p % kQuad * V::kElements;
      widen_key(kv_row(args_.k, slot), args_.head_size, key, kQuad * kTilePair,
                kQuad * V::kElements);
      widen_value(kv_row(args_.v, slot), args_.head_size, values_ + p * kTilePair,
                  kTileRows * kTilePair, V::kElements);
    }
  }

  // Multiplies the queries first .. last with the current keys, and turns their scores into
  // weights.
  void weigh_pass(size_t first, size_t last) {
    const size_t end = range_of(last - 1).end;
    for (size_t p = range_of(first).begin / kQuad * kQuad; p < end; p += kQuad) {
      for (size_t q = first; q < last; q += kTileScores) {
        score_tile(queries_ + q * stride_, stride_, keys_ + p * stride_, args_.head_size,
                   scores_ + (q - first) * kTileRows + p);
      }
    }
    for (size_t q = first; q < last; ++q) {
      const TileRange range = range_of(q);
      weigh(args_, scores_ + (q - first) * kTileRows + range.begin, range.end - range.begin,
            running_[q], sums_ + q * stride_);
    }
  }

  // Adds values. What all of kTileValues queries see is added for them together; what stands before
  // and behind that is added for each alone.
  void add_values_of_pass(size_t first, size_t last) {
    TileRange shared[kTilePass / kTileValues];
    for (size_t q = first; q < last; q += kTileValues) {
      const size_t end = q + kTileValues < last ? q + kTileValues : last;
      TileRange range = {range_of(end - 1).begin, range_of(q).end};
      if (range.begin > range.end) range.end = range.begin;
      shared[(q - first) / kTileValues] = range;
      for (size_t i = q; i < end; ++i) {
        const TileRange own = range_of(i);
        add_alone(i, first, {own.begin, own.end < range.begin ? own.end : range.begin});
      }
    }
    for (size_t i = 0; i < stride_; i += kTilePair) {
      for (size_t q = first; q < last; q += kTileValues) {
        const TileRange range = shared[(q - first) / kTileValues];
        add_tile(sums_ + q * stride_ + i, stride_,
                 values_ + i * kTileRows + range.begin * kTilePair,
                 scores_ + (q - first) * kTileRows + range.begin, range.end - range.begin);
      }
    }
    for (size_t q = first; q < last; ++q) {
      add_alone(q, first, {shared[(q - first) / kTileValues].end, range_of(q).end});
    }
  }

  void add_alone(size_t query, size_t first, TileRange range) {
    if (range.begin >= range.end) return;
    const float* weights = scores_ + (query - first) * kTileRows;
    float* sums = sums_ + query * stride_;
    for (size_t i = 0; i < stride_; i += V::kElements) {
      const float* values = values_ + i / kTilePair * kTilePair * kTileRows + i % kTilePair;
      F sum = V::load(sums + i);
      for (size_t p = range.begin; p < range.end; ++p) {
        sum = V::fma(V::set(weights[p]), V::load(values + p * kTilePair), sum);
      }
      V::store(sums + i, sum);
    }
  }

  // Ends the segment for those tokens that see something of it.
  void end_segment(size_t segment) {
    for (size_t q = 0; q < n_queries_; ++q) {
      if (n_seen(q / n_heads_) <= segment * kAttentionSegment) continue;
      if (segment == 0) {
        std::memcpy(out_of(q), sums_ + q * stride_, args_.head_size * sizeof(float));
        all_[q] = running_[q];
      } else {
        add_segment(running_[q], sums_ + q * stride_, all_[q], out_of(q), args_.head_size);
      }
    }
  }

  void divide() {
    for (size_t q = 0; q < n_queries_; ++q) {
      if (n_seen(q / n_heads_) == 0) {
        std::memset(out_of(q), 0, args_.head_size * sizeof(float));
      } else {
        scale(out_of(q), 1.0f / all_[q].total, out_of(q), args_.head_size);
      }
    }
  }

  const AttentionTile& tile_;
  const Attention& args_;
  const size_t first_, n_tokens_, n_heads_, n_queries_;
  const size_t stride_;  // from one row of queries or sums to the next: whole pairs of vectors
  float* const keys_;    // (kTileRows / kQuad, head / V::kElements, kQuad, V::kElements)
  float* const values_;  // (head / kTilePair, kTileRows, kTilePair)
  float* const queries_;
  float* const sums_;    // sums of the current segment
  float* const scores_;  // (kTilePass, kTileRows): scores of a pass's queries, then their weights
  Running running_[kTileQueries];  // for the current segment
  Running all_[kTileQueries];      // for all segments before
  size_t behind_ = 0;              // counts positions of a token before the current block
  size_t seeing_ = 0;              // the first token that sees something of the current block
};

void attention_tile_or(const AttentionTile& tile, void (*slower)(const AttentionTile&)) {
  if (!covers(tile.first)) return slower(tile);
  const size_t n_tokens = tile.seen.size();
  size_t last = 0;
  for (size_t first = 0; first < n_tokens; first = last) {
    last = first + 1;
    while (last < n_tokens && (last + 1 - first) * tile.first.n_heads <= kTileQueries &&
           tile.seen[last].first - tile.seen[first].first <= kTileSpread) {
      ++last;
    }
    if (last - first > 1 && (last - first) * tile.first.n_heads >= kFewestTileQueries) {
      TileWalk(tile, first, last).run();
    } else {
      for (size_t t = first; t < last; ++t) attend_token(token_of(tile, t));
    }
  }
}
