// Products with panels on a matrix unit with eight tile registers of 16 lines of 64 bytes each.
// Written over a class of tiles, so that the loops also run where there is no such unit:
//   begin(), end()          stand around all other calls: set the registers up, give them back
//   zero<kTile>()           makes a register zero
//   load<kTile>(p, stride), store<kTile>(p, stride)   move 16 lines of 64 bytes, which stand
//                            `stride` bytes apart
//   add_u8_i8<kC, kA, kB>()  adds C[t][r] += A[t][k] * B[k / 4][r][k % 4] over 64 k, in whole
//                            numbers
//   add_bf16<kC, kA, kB>()   adds so over 32 k with pairs of bfloat16, in floats; the unit decides
//                            in which order it adds the 32 products
//
// Four sums (two tiles of tokens times two strips) share the loads of their operands. A stretch of
// two strips stays in the first-level cache while the tokens of a group pass by. A group is few
// enough tokens for the second-level cache, and meets all strips of a call before the next group
// does. Partial sums of a group wait in a buffer. Results are written as soon as they are whole, 32
// tokens at a time, because a processor writes them while it multiplies for the next ones.

constexpr size_t kTileTokens16 = 16;      // counts lines of a tile
constexpr size_t kTilePairTokens = 32;    // counts tokens of two tiles
constexpr size_t kTileGroupTokens = 128;  // counts the most tokens of a group
// Tokens of a group take more than this many bytes only where 32 of them do.
constexpr size_t kTileGroupBytes = 640 << 10;
// Counts bytes of a token for which sums stay in registers.
constexpr size_t kTileStretchBytes = 512;
constexpr size_t kTilePairRows = 2 * kStripRows;

inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

template <typename Tiles, bool kIsInt8>
struct TileProduct {
  using Sum = std::conditional_t<kIsInt8, int32_t, float>;

  // Sums of 32 tokens and two strips: a line for each token.
  struct Sums {
    Sum* begin = nullptr;
    size_t stride = 0;  // counts sums

    Sum* at(size_t token, size_t row) const { return begin + token * stride + row; }
    size_t stride_bytes() const { return stride * sizeof(Sum); }
  };
  // Says where sums of 32 tokens and two strips begin and end.
  struct Ends {
    bool is_from_zero = true;
    Sums from;  // where they do not begin with zero
    Sums to;
    // Says where results go when the sums are whole, so that these lines are brought near before.
    // `begin` is null where none are.
    Sums results;
  };
  // Tokens and weights of 32 tokens and two strips over one stretch.
  struct Operands {
    const std::byte* x;
    size_t x_stride;
    const std::byte* w0;
    const std::byte* w1;
    size_t n_bytes;
  };

  Tiles tiles{};
  alignas(64) Sum partial[kTileGroupTokens][kTilePairRows];
  // Tokens behind the last one are padded with zeros here.
  alignas(64) std::byte padded[kTilePairTokens][kTileStretchBytes];

  template <int kC, int kA, int kB>
  void add() {
    if constexpr (kIsInt8) {
      tiles.template add_u8_i8<kC, kA, kB>();
    } else {
      tiles.template add_bf16<kC, kA, kB>();
    }
  }

  // Tiles 0 to 3 hold sums, 4 and 5 tokens, 6 and 7 weights.
  void begin_sums(const Ends& ends) {
    if (ends.is_from_zero) {
      tiles.template zero<0>();
      tiles.template zero<1>();
      tiles.template zero<2>();
      tiles.template zero<3>();
      return;
    }
    const size_t stride = ends.from.stride_bytes();
    tiles.template load<0>(ends.from.at(0, 0), stride);
    tiles.template load<1>(ends.from.at(0, kStripRows), stride);
    tiles.template load<2>(ends.from.at(kTileTokens16, 0), stride);
    tiles.template load<3>(ends.from.at(kTileTokens16, kStripRows), stride);
  }

  // Computes sums of 32 tokens and two strips over one stretch.
  void pair(const Operands& in, const Ends& ends) {
    begin_sums(ends);
    constexpr size_t kResultsAtOnce = 4;
    size_t n_near = ends.results.begin != nullptr ? 0 : kTilePairTokens;
    for (size_t i = 0; i < in.n_bytes; i += kLineBytes) {
      if (n_near < kTilePairTokens) {
        for (size_t t = n_near; t < n_near + kResultsAtOnce; ++t) {
          __builtin_prefetch(ends.results.at(t, 0), 1);
          __builtin_prefetch(ends.results.at(t, kStripRows), 1);
        }
        n_near += kResultsAtOnce;
      }
      tiles.template load<4>(in.x + i, in.x_stride);
      tiles.template load<6>(in.w0 + i * kStripRows, kLineBytes);
      tiles.template load<7>(in.w1 + i * kStripRows, kLineBytes);
      tiles.template load<5>(in.x + kTileTokens16 * in.x_stride + i, in.x_stride);
      add<0, 4, 6>();
      add<1, 4, 7>();
      add<2, 5, 6>();
      add<3, 5, 7>();
    }
    const size_t stride = ends.to.stride_bytes();
    tiles.template store<0>(ends.to.at(0, 0), stride);
    tiles.template store<1>(ends.to.at(0, kStripRows), stride);
    tiles.template store<2>(ends.to.at(kTileTokens16, 0), stride);
    tiles.template store<3>(ends.to.at(kTileTokens16, kStripRows), stride);
  }

  // Returns the place in the buffer for sums of the 32 tokens that begin with this one.
  Sums waiting(size_t token) { return {partial[token], kTilePairRows}; }

  // Computes all sums of a group of tokens and two strips, over `all.n_bytes` of each token.
  // ends_of(token) says where sums of 32 tokens begin and end; finish(token) is called when they
  // are whole.
  template <typename EndsOf, typename Finish>
  void group(const Operands& all, size_t n_tokens, EndsOf ends_of, Finish finish) {
    for (size_t i = 0; i < all.n_bytes; i += kTileStretchBytes) {
      const size_t n = least(kTileStretchBytes, all.n_bytes - i);
      const bool is_last = i + n == all.n_bytes;
      for (size_t t = 0; t < n_tokens; t += kTilePairTokens) {
        Operands in = {all.x + t * all.x_stride + i, all.x_stride, all.w0 + i * kStripRows,
                       all.w1 + i * kStripRows, n};
        if (n_tokens - t < kTilePairTokens) {
          std::memset(padded, 0, sizeof(padded));
          for (size_t j = 0; j < n_tokens - t; ++j) {
            std::memcpy(padded[j], in.x + j * all.x_stride, n);
          }
          in.x = padded[0];
          in.x_stride = kTileStretchBytes;
        }
        Ends ends = ends_of(t);
        if (i > 0) {
          ends.is_from_zero = false;
          ends.from = waiting(t);
        }
        if (!is_last) {
          ends.to = waiting(t);
          ends.results = {};
        }
        pair(in, ends);
        if (is_last) finish(t);
      }
    }
  }
};

// Calls body(strip, how many of two, token, how many) for groups of tokens and pairs of strips.
template <typename Body>
void for_each_tile_group(const PanelProduct& product, size_t token_bytes, Body body) {
  const size_t fitting = kTileGroupBytes / token_bytes / kTilePairTokens * kTilePairTokens;
  const size_t together = least(kTileGroupTokens, fitting > 0 ? fitting : kTilePairTokens);
  for (size_t t = 0; t < product.n_tokens; t += together) {
    for (size_t strip = product.first_strip; strip < product.last_strip; strip += 2) {
      body(strip, least(2, product.last_strip - strip), t, least(together, product.n_tokens - t));
    }
  }
}

// 16 numbers, which stand side by side anywhere in memory.
using TileFloats = float __attribute__((vector_size(64)));
using TileInts = int32_t __attribute__((vector_size(64)));
using TileBits = uint32_t __attribute__((vector_size(64)));

// Makes outputs of a token out of its sums, for the rows of two strips.
struct TileOutputs {
  const int32_t* starts;
  const float* scales;
  const float* bias;  // null: none
  size_t n_rows;

  // Additions of whole numbers are unsigned, because what the offset of the activations adds may
  // wrap round.
  void write(const int32_t* sums, float scale, float* y) const {
    size_t r = 0;
    for (; r + kStripRows <= n_rows; r += kStripRows) {
      TileBits sum, start;
      TileFloats row_scales, out;
      std::memcpy(&sum, sums + r, sizeof(sum));
      std::memcpy(&start, starts + r, sizeof(start));
      std::memcpy(&row_scales, scales + r, sizeof(row_scales));
      sum += start;
      out = __builtin_convertvector(reinterpret_cast<TileInts>(sum), TileFloats) * scale;
      out *= row_scales;
      if (bias != nullptr) {
        TileFloats more;
        std::memcpy(&more, bias + r, sizeof(more));
        out += more;
      }
      std::memcpy(y + r, &out, sizeof(out));
    }
    for (; r < n_rows; ++r) {
      const auto sum =
          static_cast<int32_t>(static_cast<uint32_t>(sums[r]) + static_cast<uint32_t>(starts[r]));
      y[r] = static_cast<float>(sum) * scale * scales[r];
      if (bias != nullptr) y[r] += bias[r];
    }
  }
};

template <typename Tiles>
void matmul_int8_tiles(const Int8Panels& weight, const PanelProduct& product) {
  using Product = TileProduct<Tiles, true>;
  Product work;
  work.tiles.begin();
  const size_t strip_bytes = int8_strip_bytes(weight.k), depth = int8_depth(weight.k);
  const size_t x_stride = product.x_stride_bytes;
  for_each_tile_group(product, depth, [&](size_t strip, size_t n_strips, size_t t, size_t n) {
    const auto* w = reinterpret_cast<const std::byte*>(weight.levels_of(strip));
    const std::byte* x = product.x + t * x_stride;
    const size_t first_row = strip * kStripRows;
    const TileOutputs outputs = {weight.starts_of(strip), weight.scales_of(strip),
                                 product.bias != nullptr ? product.bias + first_row : nullptr,
                                 least(n_strips * kStripRows, weight.n_rows - first_row)};
    float* y = product.y + t * product.y_stride + first_row;
    const auto ends_of = [&](size_t i) {
      typename Product::Ends ends;
      ends.to = work.waiting(i);
      // Results are as long as sums.
      if (n - i >= kTilePairTokens && outputs.n_rows == kTilePairRows) {
        ends.results = {reinterpret_cast<int32_t*>(y + i * product.y_stride), product.y_stride};
      }
      return ends;
    };
    const auto finish = [&](size_t first) {
      for (size_t i = first; i < least(first + kTilePairTokens, n); ++i) {
        outputs.write(work.partial[i], *int8_token(x + i * x_stride, weight.k).scale,
                      y + i * product.y_stride);
      }
    };
    work.group({x, x_stride, w, n_strips == 2 ? w + strip_bytes : w, depth}, n, ends_of, finish);
  });
  work.tiles.end();
}

template <typename Tiles>
void matmul_bf16_tiles(const Bf16Stretch& weight, const PanelProduct& product) {
  using Product = TileProduct<Tiles, false>;
  Product work;
  work.tiles.begin();
  const size_t strip_length = kStripRows * weight.n_k, n_bytes = weight.n_k * sizeof(uint16_t);
  const size_t y_stride = product.y_stride, x_stride = product.x_stride_bytes;
  for_each_tile_group(product, n_bytes, [&](size_t strip, size_t n_strips, size_t t, size_t n) {
    const uint16_t* panel = weight.panel + (strip - product.first_strip) * strip_length;
    const auto* w0 = reinterpret_cast<const std::byte*>(panel);
    const size_t first_row = strip * kStripRows;
    const size_t n_rows = least(n_strips * kStripRows, weight.n_rows - first_row);
    float* y = product.y + t * y_stride + first_row;
    // Where all of 32 tokens and 32 rows are there, sums begin and end in y, else in the buffer.
    const auto is_whole = [&](size_t i) {
      return n - i >= kTilePairTokens && n_rows == kTilePairRows;
    };
    const auto ends_of = [&](size_t first) {
      typename Product::Ends ends;
      ends.is_from_zero = weight.is_first;
      if (is_whole(first)) {
        ends.from = ends.to = ends.results = {y + first * y_stride, y_stride};
        return ends;
      }
      ends.from = ends.to = work.waiting(first);
      return ends;
    };
    const auto copy = [&](size_t i, bool is_out) {
      if (is_out) std::memcpy(y + i * y_stride, work.partial[i], n_rows * sizeof(float));
      if (!is_out) std::memcpy(work.partial[i], y + i * y_stride, n_rows * sizeof(float));
    };
    for (size_t i = 0; i < n && !weight.is_first; ++i) {
      if (!is_whole(i / kTilePairTokens * kTilePairTokens)) copy(i, false);
    }
    const auto finish = [&](size_t first) {
      for (size_t i = first; i < least(first + kTilePairTokens, n); ++i) {
        if (!is_whole(first)) copy(i, true);
        if (!weight.is_last || product.bias == nullptr) continue;
        for (size_t r = 0; r < n_rows; ++r) y[i * y_stride + r] += product.bias[first_row + r];
      }
    };
    const std::byte* w1 = n_strips == 2 ? w0 + strip_length * sizeof(uint16_t) : w0;
    work.group({product.x + t * x_stride, x_stride, w0, w1, n_bytes}, n, ends_of, finish);
  });
  work.tiles.end();
}
