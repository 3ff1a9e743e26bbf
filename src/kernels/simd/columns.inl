// Products by neuron, written once for all instruction sets (see math.inl). V must also have
//   V::load_nibbles<kOffset>(bytes, &low, &high)   loads kElements bytes: both halves of each byte,
//                                                  less kOffset

// Vectors of outputs that are summed together: those of kBlocks blocks.
template <size_t kBlocks>
struct ColumnTile {
  static constexpr int kVectors = static_cast<int>(kBlocks * kColumnBlock / V::kElements);
  F sums[kVectors];
};

template <ColumnForm kForm>
inline constexpr bool kHasNibbles =
    kForm == ColumnForm::kNibbles || kForm == ColumnForm::kOffsetNibbles;
template <ColumnForm kForm>
inline constexpr bool kHasMinima = kForm == ColumnForm::kNibbles || kForm == ColumnForm::kWideBytes;

// Adds value * the levels of a column to the sums, from output `first` on.
template <ColumnForm kForm, size_t kBlocks>
TROIKA_INLINE inline void add_column(const std::byte* levels, size_t first, float value,
                                     ColumnTile<kBlocks>& tile) {
  const F factor = V::set(value);
  if constexpr (kHasNibbles<kForm>) {
    constexpr int kOffset = kForm == ColumnForm::kOffsetNibbles ? 8 : 0;
    // Counts vectors of half a block.
    constexpr int kHalf = static_cast<int>(kColumnBlock / 2 / V::kElements);
    const std::byte* bytes = levels + first / 2;
    unrolled<static_cast<int>(kBlocks)>([&](auto b) TROIKA_INLINE {
      unrolled<kHalf>([&](auto i) TROIKA_INLINE {
        F low, high;
        V::load_nibbles<kOffset>(bytes + b * 16 + i * V::kElements, &low, &high);
        F& sum = tile.sums[b * 2 * kHalf + i];
        F& other = tile.sums[b * 2 * kHalf + kHalf + i];
        sum = V::fma(factor, low, sum);
        other = V::fma(factor, high, other);
      });
    });
  } else {
    unrolled<ColumnTile<kBlocks>::kVectors>([&](auto i) TROIKA_INLINE {
      const size_t at = first + i * V::kElements;
      F level;
      if constexpr (kForm == ColumnForm::kFloats) {
        level = V::load(reinterpret_cast<const float*>(levels + at * sizeof(float)));
      } else if constexpr (kForm == ColumnForm::kHalves) {
        level = V::load_f16(levels + at * sizeof(uint16_t));
      } else {
        level = V::load_i8(levels + at);
      }
      tile.sums[i] = V::fma(factor, level, tile.sums[i]);
    });
  }
}

// Adds scale * sums - minimum * total to y, for outputs from `first` on.
template <ColumnForm kForm, size_t kBlocks>
TROIKA_INLINE inline void add_group(const ColumnPlanes& planes, size_t group, size_t first,
                                    float total, const ColumnTile<kBlocks>& tile, float* y) {
  constexpr bool kIsFloat = kForm == ColumnForm::kFloats || kForm == ColumnForm::kHalves;
  unrolled<ColumnTile<kBlocks>::kVectors>([&](auto i) TROIKA_INLINE {
    float* out = y + first + i * V::kElements;
    const size_t at = group * planes.n_outputs + first + i * V::kElements;
    F sum = V::load(out);
    if constexpr (kIsFloat) {
      sum = V::add(sum, tile.sums[i]);
    } else if constexpr (kHasMinima<kForm>) {
      const auto* scales = reinterpret_cast<const float*>(planes.scales);
      sum = V::fma(V::load(scales + at), tile.sums[i], sum);
      sum = V::sub(sum, V::mul(V::load(planes.minima + at), V::set(total)));
    } else {
      sum = V::fma(V::load_f16(planes.scales + at * sizeof(uint16_t)), tile.sums[i], sum);
    }
    V::store(out, sum);
  });
}

// Computes a stretch of outputs with the live neurons of a group.
template <ColumnForm kForm, size_t kBlocks>
TROIKA_INLINE inline void add_group_tile(const ColumnPlanes& planes, size_t group,
                                         std::span<const LiveColumn> live, float total,
                                         size_t first, float* y) {
  ColumnTile<kBlocks> tile;
  unrolled<ColumnTile<kBlocks>::kVectors>([&](auto i) TROIKA_INLINE { tile.sums[i] = V::zero(); });
  for (const LiveColumn& column : live) {
    add_column<kForm, kBlocks>(column.levels, first, column.value, tile);
  }
  add_group<kForm, kBlocks>(planes, group, first, total, tile, y);
}

// Fetches what columns have for the outputs of a tile, as rows are fetched (kernels/rows.h).
template <ColumnForm kForm, size_t kBlocks>
TROIKA_INLINE inline void fetch_columns(std::span<const LiveColumn> live, size_t first) {
  constexpr size_t kLineBytes = 64, kTileBytes = column_bytes(kForm, kBlocks * kColumnBlock);
  const size_t at = column_bytes(kForm, first);
  // The first of several tiles that share a line fetches it.
  if (kTileBytes < kLineBytes && at % kLineBytes != 0) return;
  for (const LiveColumn& column : live) {
    for (size_t i = at; i < at + kTileBytes; i += kLineBytes) {
      __builtin_prefetch(column.levels + i, 0, 2);
    }
  }
}

// Returns the columns of the first group.
inline std::span<const LiveColumn> columns_of_group(const ColumnPlanes& planes,
                                                    std::span<const LiveColumn> live) {
  size_t n = 0;
  while (n < live.size() && live[n].neuron / planes.group == live.front().neuron / planes.group) {
    ++n;
  }
  return live.first(n);
}

template <ColumnForm kForm>
void add_columns(const ColumnPlanes& planes, std::span<const LiveColumn> live, size_t first,
                 size_t last, float* y) {
  constexpr size_t kBlocks = V::kElements * static_cast<size_t>(V::kRegisters) / 4 / kColumnBlock;
  static_assert(kBlocks > 0);
  for (size_t o = first; o < last; o += V::kElements) V::store(y + o, V::zero());
  std::span<const LiveColumn> own = columns_of_group(planes, live);
  while (!own.empty()) {
    live = live.subspan(own.size());
    const std::span<const LiveColumn> next = columns_of_group(planes, live);
    const size_t group = own.front().neuron / planes.group;
    float total = 0.0f;
    for (const LiveColumn& column : own) total += column.value;
    size_t o = first;
    for (; o + kBlocks * kColumnBlock <= last; o += kBlocks * kColumnBlock) {
      fetch_columns<kForm, kBlocks>(next, o);
      add_group_tile<kForm, kBlocks>(planes, group, own, total, o, y);
    }
    for (; o < last; o += kColumnBlock) {
      fetch_columns<kForm, 1>(next, o);
      add_group_tile<kForm, 1>(planes, group, own, total, o, y);
    }
    own = next;
  }
}
