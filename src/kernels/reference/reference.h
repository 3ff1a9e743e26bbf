// The plain version of every kernel, by which the others are judged. Sums are kept in double.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::reference {

extern const Table kTable;

// These are used by the table, and by faster implementations for what they do not cover.
void attention(const Attention& args);
void attention_segment(const Attention& args, size_t segment, float* part);
void attention_merge(const Attention& args, const float* parts);
void attention_tile(const AttentionTile& tile);
void pack_values(Type type, const std::byte* const* rows, size_t n, size_t head_size,
                 uint16_t* panel);
float weigh_scores(const float* scores, size_t n, OnlineSoftmax* softmax, uint16_t* weights);
void raise_largest(const float* scores, size_t stride, const float* minus, size_t n_queries,
                   size_t n, float* largest);
void mark_first(const float* scores, size_t stride, const float* limits, const float* marks,
                size_t n_queries, size_t n, float* first);
void load_kv(Type type, const std::byte* row, float* x, size_t n);
void store_kv(Type type, const float* x, std::byte* row, size_t n);

}  // namespace troika::kernels::reference
