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
// two strips stays in the first-level cache while the tokens pass by; partial sums wait in a buffer
// that fits the second-level cache.

constexpr size_t kTileTokens16 = 16;      // counts lines of a tile
constexpr size_t kTilePairTokens = 32;    // counts tokens of two tiles
constexpr size_t kTileGroupTokens = 256;  // counts tokens whose partial sums wait together
// Counts bytes of a token for which sums stay in registers.
constexpr size_t kTileStretchBytes = 512;
constexpr size_t kTilePairRows = 2 * kPanelRows;

inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

template <typename Tiles, bool kIsInt8>
struct TileProduct {
  using Sum = std::conditional_t<kIsInt8, int32_t, float>;

  Tiles tiles{};
  alignas(64) Sum sums[kTileGroupTokens][kTilePairRows];
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

  // Computes sums of 32 tokens and two strips over one stretch. Tiles 0 to 3 hold sums, 4 and 5
  // tokens, 6 and 7 weights.
  void pair(const std::byte* x, size_t x_stride, const std::byte* w0, const std::byte* w1,
            size_t n_bytes, bool is_first, Sum* out) {
    constexpr size_t kStride = kTilePairRows * sizeof(Sum);
    Sum* const low = out + kTileTokens16 * kTilePairRows;
    if (is_first) {
      tiles.template zero<0>();
      tiles.template zero<1>();
      tiles.template zero<2>();
      tiles.template zero<3>();
    } else {
      tiles.template load<0>(out, kStride);
      tiles.template load<1>(out + kPanelRows, kStride);
      tiles.template load<2>(low, kStride);
      tiles.template load<3>(low + kPanelRows, kStride);
    }
    for (size_t i = 0; i < n_bytes; i += kLineBytes) {
      tiles.template load<4>(x + i, x_stride);
      tiles.template load<6>(w0 + i * kPanelRows, kLineBytes);
      tiles.template load<7>(w1 + i * kPanelRows, kLineBytes);
      tiles.template load<5>(x + kTileTokens16 * x_stride + i, x_stride);
      add<0, 4, 6>();
      add<1, 4, 7>();
      add<2, 5, 6>();
      add<3, 5, 7>();
    }
    tiles.template store<0>(out, kStride);
    tiles.template store<1>(out + kPanelRows, kStride);
    tiles.template store<2>(low, kStride);
    tiles.template store<3>(low + kPanelRows, kStride);
  }

  // Computes all sums of a group of tokens and two strips, over n_bytes of each token. Where
  // `goes_on`, it starts with what stands in `sums`.
  void group(const std::byte* x, size_t x_stride, size_t n_tokens, const std::byte* w0,
             const std::byte* w1, size_t n_bytes, bool goes_on) {
    for (size_t i = 0; i < n_bytes; i += kTileStretchBytes) {
      const size_t n = least(kTileStretchBytes, n_bytes - i);
      const bool is_first = i == 0 && !goes_on;
      for (size_t t = 0; t < n_tokens; t += kTilePairTokens) {
        const std::byte* tokens = x + t * x_stride + i;
        size_t stride = x_stride;
        if (n_tokens - t < kTilePairTokens) {
          std::memset(padded, 0, sizeof(padded));
          for (size_t j = t; j < n_tokens; ++j) {
            std::memcpy(padded[j - t], x + j * x_stride + i, n);
          }
          tokens = padded[0];
          stride = kTileStretchBytes;
        }
        pair(tokens, stride, w0 + i * kPanelRows, w1 + i * kPanelRows, n, is_first, sums[t]);
      }
    }
  }
};

// Calls body(strip, how many of two, token, how many) for pairs of strips and groups of tokens.
template <typename Body>
void for_each_tile_group(const PanelProduct& product, Body body) {
  for (size_t strip = product.first_strip; strip < product.last_strip; strip += 2) {
    for (size_t t = 0; t < product.n_tokens; t += kTileGroupTokens) {
      body(strip, least(2, product.last_strip - strip), t,
           least(kTileGroupTokens, product.n_tokens - t));
    }
  }
}

template <typename Tiles>
void matmul_int8_tiles(const Int8Panels& weight, const PanelProduct& product) {
  TileProduct<Tiles, true> work;
  work.tiles.begin();
  const size_t strip_bytes = int8_strip_bytes(weight.k);
  for_each_tile_group(product, [&](size_t strip, size_t n_strips, size_t t, size_t n_tokens) {
    const auto* w = reinterpret_cast<const std::byte*>(weight.levels_of(strip));
    work.group(product.x + t * product.x_stride_bytes, product.x_stride_bytes, n_tokens, w,
               n_strips == 2 ? w + strip_bytes : w, int8_depth(weight.k), false);
    const size_t first_row = strip * kPanelRows;
    const size_t n_rows = least(n_strips * kPanelRows, weight.n_rows - first_row);
    const float* scales = weight.scales_of(strip);
    const int32_t* starts = weight.starts_of(strip);
    for (size_t i = 0; i < n_tokens; ++i) {
      const std::byte* row = product.x + (t + i) * product.x_stride_bytes;
      const float scale = *int8_token(row, weight.k).scale;
      float* y = product.y + (t + i) * product.y_stride + first_row;
      for (size_t r = 0; r < n_rows; ++r) {
        // The addition is unsigned, because what the offset of the activations adds may wrap round.
        const auto sum = static_cast<int32_t>(static_cast<uint32_t>(work.sums[i][r]) +
                                              static_cast<uint32_t>(starts[r]));
        y[r] = static_cast<float>(sum) * scale * scales[r];
      }
      if (product.bias == nullptr) continue;
      for (size_t r = 0; r < n_rows; ++r) y[r] += product.bias[first_row + r];
    }
  });
  work.tiles.end();
}

template <typename Tiles>
void matmul_bf16_tiles(const Bf16Stretch& weight, const PanelProduct& product) {
  TileProduct<Tiles, false> work;
  work.tiles.begin();
  const size_t strip_length = kPanelRows * weight.n_k;
  for_each_tile_group(product, [&](size_t strip, size_t n_strips, size_t t, size_t n_tokens) {
    const uint16_t* w = weight.panel + (strip - product.first_strip) * strip_length;
    const size_t first_row = strip * kPanelRows;
    const size_t n_rows = least(n_strips * kPanelRows, weight.n_rows - first_row);
    float* y = product.y + t * product.y_stride + first_row;
    if (!weight.is_first) {
      for (size_t i = 0; i < n_tokens; ++i) {
        std::memcpy(work.sums[i], y + i * product.y_stride, n_rows * sizeof(float));
      }
    }
    work.group(product.x + t * product.x_stride_bytes, product.x_stride_bytes, n_tokens,
               reinterpret_cast<const std::byte*>(w),
               reinterpret_cast<const std::byte*>(n_strips == 2 ? w + strip_length : w),
               weight.n_k * sizeof(uint16_t), !weight.is_first);
    for (size_t i = 0; i < n_tokens; ++i, y += product.y_stride) {
      std::memcpy(y, work.sums[i], n_rows * sizeof(float));
      if (!weight.is_last || product.bias == nullptr) continue;
      for (size_t r = 0; r < n_rows; ++r) y[r] += product.bias[first_row + r];
    }
  });
  work.tiles.end();
}
