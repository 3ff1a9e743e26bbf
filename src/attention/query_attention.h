// Attention of a prompt as the paper has it (S1, S2): each query of each head chooses its own
// positions among those it may see, by an estimate in int8 before softmax and without mask, and
// attends to those exactly, in float. With all positions it is attention of steps to the bit.
#pragma once

#include <functional>

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

struct QueryRoom {
  size_t head_size;
  size_t n_group;

  size_t bytes(size_t n_positions) const;  // a multiple of 64
};

// The tokens at positions `begin` .. begin + n_tokens, of one head of keys. A query of query head h
// of those that share it keeps share_of(h) of what it sees (S3). REQUIRES: begin >=
// kLeastPositions; the positions end with the last token; `workspace` is at a multiple of 64 bytes.
void attend_by_query(const kernels::Table& table, const Positions& positions,
                     const Queries& queries, size_t begin, size_t n_tokens,
                     const std::function<double(size_t head)>& share_of, const QueryRoom& room,
                     std::byte* workspace);

}  // namespace troika::attention
