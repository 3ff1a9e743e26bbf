// Arithmetic on spans: the table of kernels that a lane calls. Kernels keep no state, allocate
// nothing and throw nothing.
//
// The numerics law: each output element is accumulated in an order that depends on the length of
// its sum, the element type and the implementation only: never on the number of tokens, the range
// of rows, the position of the element in a tile, or on threads. Thus a lane may cut a call by rows
// or tokens as it likes and gets the same bits.
//
// Names: k is the length of a sum, t a token, r a row of a weight. A stride is counted in floats
// from one token (or head) to the next, unless its name says bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/columns.h"
#include "kernels/outliers.h"
#include "kernels/panels.h"
#include "kernels/prompt_attention.h"
#include "tensor/type.h"

namespace troika::kernels {

using tensor::Type;

// The rows of a weight in a product y[t][r] = sum over k of weight[r][k] * x[t][k], for rows
// first_row <= r < last_row. Rows stand as in the file, at any alignment, except for those before
// n_strip_rows, which only some functions take, as they say. y is addressed by the absolute row:
// y[t * y_stride + r].
struct MatmulWeight {
  const std::byte* data = nullptr;  // row 0
  size_t row_bytes = 0;             // counts bytes from one row to the next
  size_t k = 0;                     // elements of a row: a multiple of the block length, not 0
  size_t first_row = 0;
  size_t last_row = 0;
  // Rows before this one stand in strips of 16 (tensor/strips.h). It is a multiple of 16, and so
  // are first_row and last_row where they are smaller.
  size_t n_strip_rows = 0;
};
// Rows of a matrix in strips are no longer than this.
inline constexpr size_t kMostStripDepth = 131072;

// Multiplies float activations: weights are decoded exactly, and sums are kept in float. Other
// products are judged by this one.
using MatmulF32 = void(const MatmulWeight& weight, size_t n_tokens, const float* x, size_t x_stride,
                       float* y, size_t y_stride);
// Multiplies activations from `quantize_activations`, by whole-number dot products in each block. A
// block's scale is multiplied with a token's first: where that is more than a float holds, the
// result may be no number, and with 2-bit levels it may depend on how rows and tokens are divided.
using MatmulQ8 = void(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                      size_t x_stride_bytes, float* y, size_t y_stride);
// Does what MatmulQ8 does, for weights that stand wholly in strips, with the blocks of all groups
// of tokens.
using MatmulSpread = void(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x,
                          float* y, size_t y_stride);
// Makes the blocks of one token from its row, or from a piece of its row: block b is blocks[b *
// stride], where `stride` tokens are in a group.
using SpreadToken = void(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride);

// Multiplies many tokens with int8 panels: whole-number sums over the whole of k, times the token's
// scale, times the row's, in this order. All implementations agree to the bit.
using MatmulInt8 = void(const Int8Panels& weight, const PanelProduct& product);
// Multiplies many tokens with bfloat16 panels, with float sums in the order of k. `product.x`
// begins at the stretch.
using MatmulBf16 = void(const Bf16Stretch& weight, const PanelProduct& product);
// Unpacks rows first_row .. last_row (at most 16) of a weight as one strip of a stretch: k from
// first_k on (a multiple of 256), n_k of it or as much as there is. n_k is a multiple of 32; of
// strips, a multiple of 256, or all that is left of the row. Subnormal weights may become 0.
using UnpackBf16 = void(const MatmulWeight& weight, size_t first_k, size_t n_k, uint16_t* strip);

// Returns the largest magnitude in a row of k weights: no number where one of them is infinite or
// no number.
using LargestOfRow = float(const std::byte* row, size_t k);
// Unpacks rows first_row .. last_row (at most 16) of a weight as one strip of int8 panels.
// `largest` holds the largest magnitudes of these rows; each becomes 127, and all else a whole
// number by the same factor, as `Table::quantize_int8` does it. Where it is no number, neither is
// the row's scale, and its levels are 0. All implementations agree to the bit. REQUIRES: k <=
// kMostInt8Depth.
using UnpackInt8 = void(const MatmulWeight& weight, const float* largest, const Int8Strip& strip);

// ByType is a list indexed by Type, whose values have gaps; it holds null for types without a
// codec.
inline constexpr size_t kTypeLimit = 40;
template <typename Function>
using ByType = std::array<Function*, kTypeLimit>;

using ByColumnForm = std::array<AddColumns*, kColumnForms>;

// Pointwise functions allow y == x (or a, b) and no other overlap.
struct Table {
  // Products of weights with activations.
  ByType<MatmulF32> matmul_f32{};
  ByType<MatmulQ8> matmul_q8{};
  ByColumnForm add_columns{};
  // Turns k floats of x into q8_row_bytes(k) bytes, 4-byte aligned. Not-a-number counts as 0 and
  // infinity as the largest float, but where there is one of them the block's scale is no number,
  // and so is every product with it.
  void (*quantize_activations)(const float* x, std::byte* y, size_t k) = nullptr;
  // These serve prompts. They turn k floats of x into int8_token_bytes(k) or bf16_token_bytes(k).
  // In int8 levels are 0 and the scale is no number where one of them is infinite or no number; in
  // bfloat16 both stay.
  void (*quantize_int8)(const float* x, std::byte* y, size_t k) = nullptr;
  void (*narrow_bf16)(const float* x, std::byte* y, size_t k) = nullptr;
  MatmulInt8* matmul_int8 = nullptr;
  MatmulBf16* matmul_bf16 = nullptr;

  // Normalise one row of n; `weight` and `bias` may be null (1 and 0).
  void (*rms_norm)(const float* x, const float* weight, float eps, float* y, size_t n) = nullptr;
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, float* y,
                     size_t n) = nullptr;

  // Rotate the first n_rot (even) elements of each head of one token in place; cos and sin hold
  // n_rot / 2 values. `normal` turns pairs (2i, 2i + 1), `neox` pairs (i, i + n_rot / 2).
  void (*rope_normal)(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
                      const float* sin) = nullptr;
  void (*rope_neox)(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
                    const float* sin) = nullptr;

  // Compute y = f(gate) * up in a feed-forward block. gelu is the tanh form.
  void (*silu_mul)(const float* gate, const float* up, float* y, size_t n) = nullptr;
  void (*gelu_mul)(const float* gate, const float* up, float* y, size_t n) = nullptr;
  void (*relu_mul)(const float* gate, const float* up, float* y, size_t n) = nullptr;
  void (*silu)(const float* x, float* y, size_t n) = nullptr;
  void (*gelu)(const float* x, float* y, size_t n) = nullptr;
  void (*relu)(const float* x, float* y, size_t n) = nullptr;

  void (*add)(const float* a, const float* b, float* y, size_t n) = nullptr;
  void (*scale)(const float* x, float factor, float* y, size_t n) = nullptr;
  // Computes y = cap * tanh(x / cap), within 4e-7 * cap.
  void (*soft_cap)(const float* x, float cap, float* y, size_t n) = nullptr;
  // Computes y = exp(x), within 2e-7 relative of std::exp; below -87.3 it may flush to zero.
  void (*exp)(const float* x, float* y, size_t n) = nullptr;
  // Computes y = softmax(x). Where an x is not a number or +infinity, or no x is above -infinity,
  // no y is a number.
  void (*softmax)(const float* x, float* y, size_t n) = nullptr;
  // Returns the index of the largest value, the first of equals. Not-a-number is chosen only where
  // all are. REQUIRES: n > 0.
  size_t (*argmax)(const float* x, size_t n) = nullptr;
  // Counts the values above a limit; not-a-number is none. REQUIRES: n < 2^32.
  size_t (*count_above)(const float* x, size_t n, float limit) = nullptr;
  // Writes the indices of these values to `out`, in ascending order, and returns how many there
  // are. What else of `out`, which has room for n, holds afterwards is not said.
  size_t (*find_above)(const float* x, size_t n, float limit, uint32_t* out) = nullptr;

  void (*attention)(const Attention& args) = nullptr;
  // Do what `attention` does, to the bit, in parts that several workers may compute. The first
  // computes one segment, whose `part` is (n_heads, attention_part_floats). The second joins all
  // segments, whose `parts` stand one after the other.
  void (*attention_segment)(const Attention& args, size_t segment, float* part) = nullptr;
  void (*attention_merge)(const Attention& args, const float* parts) = nullptr;
  // Computes many tokens, each to the bits of `attention`.
  void (*attention_tile)(const AttentionTile& tile) = nullptr;
  // Writes one row of n floats into a cache of `type`: F32, F16 or Q8_0 (n a multiple of 32).
  void (*store_kv)(Type type, const float* x, std::byte* row, size_t n) = nullptr;
  // Reads a row that store_kv has written.
  void (*load_kv)(Type type, const std::byte* row, float* x, size_t n) = nullptr;

  // Compute the parts of attention of many queries (kernels/prompt_attention.h).
  WeighScores* weigh_scores = nullptr;
  RaiseLargest* raise_largest = nullptr;
  MarkFirst* mark_first = nullptr;
  // Packs the values of n positions (rows[p] of a cache type) as panels of bf16_depth(n): strips of
  // 16 elements of the head, with positions along k.
  void (*pack_values)(Type type, const std::byte* const* rows, size_t n, size_t head_size,
                      uint16_t* panel) = nullptr;

  // Bring weights into the form of panels.
  ByType<UnpackBf16> unpack_bf16{};
  ByType<LargestOfRow> largest_of_row{};
  ByType<UnpackInt8> unpack_int8{};

  // Do what the functions above do, to the bit, for weights of which rows stand in strips. Null for
  // all types, or for float types only.
  ByType<MatmulQ8> matmul_q8_strips{};
  ByType<SpreadToken> spread_token{};
  ByType<MatmulSpread> matmul_spread{};
  ByType<UnpackBf16> unpack_bf16_strips{};
  ByType<UnpackInt8> unpack_int8_strips{};
  // From this number of tokens on, rows that stand as in the file are multiplied sooner if they are
  // first brought into strips in a core's own cache; 0: never.
  size_t turned_from = 0;

  // Quantises as quantize_int8 does, with a scale by `range` (kernels/outliers.h). What is clamped
  // is written to `outliers`, which has room for k, unless that is null. Returns how many there
  // are.
  size_t (*quantize_int8_within)(const float* x, Int8Range range, std::byte* y, Outlier* outliers,
                                 size_t k) = nullptr;
  void (*add_outliers)(const Int8Panels& weight, const OutlierProduct& product) = nullptr;
  void (*multiply_channels)(const ChannelProduct& product) = nullptr;
};

// Returns a list with a function for every type of the table: `choose` is a lambda with a type as
// its template parameter, which returns the function of that type.
template <typename Function, typename Choose>
constexpr ByType<Function> by_type(Choose choose) {
  ByType<Function> functions{};
  [&]<size_t... kIndices>(std::index_sequence<kIndices...>) {
    ((functions[static_cast<size_t>(tensor::kTypeTable[kIndices].type)] =
          choose.template operator()<tensor::kTypeTable[kIndices].type>()),
     ...);
  }
  (std::make_index_sequence<std::size(tensor::kTypeTable)>());
  return functions;
}

// Returns a list as by_type does, with null for types without blocks.
template <typename Function, typename Choose>
constexpr ByType<Function> by_block_type(Choose choose) {
  return by_type<Function>([choose]<Type kType>() -> Function* {
    if constexpr (tensor::is_float(kType)) {
      return nullptr;
    } else {
      return choose.template operator()<kType>();
    }
  });
}

// Returns a list with a function for each form of columns.
template <typename Choose>
constexpr ByColumnForm by_column_form(Choose choose) {
  ByColumnForm functions{};
  [&]<size_t... kIndices>(std::index_sequence<kIndices...>) {
    ((functions[kIndices] = choose.template operator()<static_cast<ColumnForm>(kIndices)>()), ...);
  }
  (std::make_index_sequence<kColumnForms>());
  return functions;
}

template <typename Function>
Function* find(const std::array<Function*, kTypeLimit>& functions, Type type) {
  return static_cast<size_t>(type) < kTypeLimit ? functions[static_cast<size_t>(type)] : nullptr;
}

}  // namespace troika::kernels
