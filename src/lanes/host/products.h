// How an op multiplies a matrix with activations: the parts that plain products, products of
// experts and products whose outliers are tasks of their own have in common.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Is the longest stretch of k that is unpacked at a time: 64 rows of this length fit a second-level
// cache.
inline constexpr size_t kStretch = 2048;
inline constexpr size_t kStretchBytes =
    kMostStripsTogether * kernels::kStripRows * kStretch * sizeof(uint16_t);
// Strips of int8 are unpacked together, in whole rows. They take more than this many bytes only
// where a single strip does.
inline constexpr size_t kMostUnpackedBytes = 640 << 10;
// Rows that are brought side by side on the way take more than this only where 16 of them do. They
// stay in the second-level cache while all tokens meet them.
inline constexpr size_t kMostTurnedBytes = 256 << 10;
// Returns how many bytes each worker needs for what a product of so many tokens unpacks or turns: a
// multiple of 64.
size_t unpacked_weight_bytes(const BoundOp& bound, size_t n_tokens);

// Writes row `row` of the input, x, to `out` in the form that the product takes.
void prepare_row(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                 const float* x, std::byte* out);
// Prepares the rows that fall to this worker.
void prepare_rows(const BoundOp& bound, const OpContext& context, int worker);

// What a worker multiplies: all rows of a run with a weight, or those of an expert with its part.
struct ProductWork {
  const BoundOp& bound;
  const BoundProduct& product;
  const OpContext& context;
  int worker;
  ProductWeight weight;  // says where the weight lies in this run
  // Activations in the form that the product takes; where that form is kFloat, `floats` has them
  // instead.
  const std::byte* prepared;
  const float* floats;
  size_t n_rows;
  float* output;  // (n_rows, output_width)

  size_t k() const { return static_cast<size_t>(bound.input_width); }
  size_t output_width() const { return static_cast<size_t>(bound.output_width); }
};
// Returns the product of all rows of the run.
ProductWork whole_product(const BoundOp& bound, const OpContext& context, int worker);

// Says into how many items a product is divided between the workers, and multiplies one of them.
struct ProductItems {
  int64_t n;
  int64_t size;  // counts strips, or rows of the weight
};
// Divides a product into items. `n_parallel` counts such products that are shared at the same time.
ProductItems items_of(const ProductWork& work, int64_t n_parallel = 1);
void run_item(const ProductWork& work, ProductItems items, int64_t item);

void run_linear(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
