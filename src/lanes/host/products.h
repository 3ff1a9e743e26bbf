// How an op multiplies a matrix with activations: what products, those of experts and those whose
// outliers are tasks of their own share.
#pragma once

#include <algorithm>

#include "lanes/host/bound_ops.h"

namespace troika::lanes {

// Calls body(item) for each of n_items on some worker. Each worker begins with a part of its own,
// so that it reads on where it has read before, and helps the others when that is done.
template <typename Body>
void share_items(const OpContext& context, int index, int worker, int64_t n_items, Body body) {
  const int n_workers = context.team.n_active();
  ItemCounter* counters = context.counters + static_cast<ptrdiff_t>(index) * context.team.size();
  for (int i = 0; i < n_workers; ++i) {
    const int owner = (worker + i) % n_workers;
    const Share share = share_of(n_items, owner, n_workers);
    const int64_t n_own = share.end - share.begin;
    std::atomic<int64_t>& n_begun = counters[owner].n_begun;
    // Looked at first: a finished part's counter stays where it is, in every worker's cache.
    while (n_begun.load(std::memory_order_relaxed) < n_own) {
      const int64_t item = n_begun.fetch_add(1, std::memory_order_relaxed);
      if (item < n_own) body(share.begin + item);
    }
  }
}

inline int n_rows_of(const BoundOp& bound, const Run& run) {
  return bound.per_output ? run.n_outputs : run.n_tokens;
}

// Chooses the form and the kernel of a product.
void bind_product(BoundOp* bound, const weights::Store& weights, const kernels::Table& kernels,
                  Precision precision);

// Row `row` of the input, x, in the form that the product takes, to `out`.
void prepare_row(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                 const float* x, std::byte* out);
// The rows that fall to this worker.
void prepare_rows(const BoundOp& bound, const OpContext& context, int worker);

// What a worker multiplies: all rows of a run with a weight, or those of an expert with its part.
struct Multiplication {
  const BoundOp& bound;
  const OpContext& context;
  int worker;
  ProductWeight weight;  // where it lies in this run
  // Activations in the form that the product takes: `prepared`, or where that is kFloat `floats`.
  const std::byte* prepared;
  const float* floats;
  size_t n_rows;
  float* output;  // (n_rows, bound.output_width)
};
// All rows of the run.
Multiplication whole_product(const BoundOp& bound, const OpContext& context, int worker);

// Into how many items a product is divided between the workers, and one of them.
struct ProductItems {
  int64_t n;
  int64_t size;  // strips, or rows of the weight
};
// `n_parallel`: so many such products are shared at the same time.
ProductItems items_of(const Multiplication& product, int64_t n_parallel = 1);
void run_item(const Multiplication& product, ProductItems items, int64_t item);

void run_linear(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
