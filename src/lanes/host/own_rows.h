// Rows that each worker computes for itself, where a run has a single row.
//
// A row of a small model is computed in less time than the workers need to meet and to fetch it
// from the cache of the one that has computed it. So each worker makes every row between two
// products itself, into memory of its own, and brings it into the form of the next product. Workers
// meet only where a product has been divided between them.
#pragma once

#include "lanes/host/bound_ops.h"

namespace troika::lanes {

// What an executable needs for that.
struct OwnRows {
  bool are_there = false;     // says whether runs of a single row can be computed so
  size_t n_floats = 0;        // counts those of one worker's values
  size_t prepared_bytes = 0;  // counts those of a row in the form that a product takes

  // Returns the bytes of one worker, which begin at a cache line.
  size_t bytes() const;
};

// Finds which values stay with their worker, and notes it in the ops. These are values that no
// other subgraph reads.
OwnRows place_own_rows(const Subgraph& subgraph, const Buffers& buffers, std::vector<BoundOp>* ops);

// Returns at most how many bytes own rows of a model take for each worker, with rows of at most
// this many bytes in the form of a product.
size_t most_own_row_bytes(const model::Blueprint& blueprint, size_t prepared_bytes);

}  // namespace troika::lanes
