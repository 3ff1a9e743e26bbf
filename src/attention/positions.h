// Where the keys and values of a sequence's positions lie, for one head.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv.h"

namespace troika::attention {

// Position p has the slot that is number p of the joined lists.
struct Positions {
  kernels::KvView k, v;
  std::span<const uint32_t> past, own;

  size_t size() const { return past.size() + own.size(); }
  uint32_t slot(size_t p) const { return p < past.size() ? past[p] : own[p - past.size()]; }
  const std::byte* key(size_t p) const { return kernels::kv_row(k, slot(p)); }
  const std::byte* value(size_t p) const { return kernels::kv_row(v, slot(p)); }
  size_t key_bytes(size_t head_size) const { return tensor::row_bytes(k.type, head_size); }
};

// Queries of consecutive tokens, for the query heads that share a head of keys.
struct Queries {
  const float* q = nullptr;  // token t, head h: q[t * stride + h * head_size]
  float* out = nullptr;      // stands like `q`
  size_t stride = 0;
  size_t head_size = 0;
  size_t n_group = 0;
  float scale = 1.0f;     // multiplies the product of a query and a key
  float soft_cap = 0.0f;  // 0: none

  Queries from(size_t token) const {
    Queries later = *this;
    later.q += token * stride;
    later.out += token * stride;
    return later;
  }
  Queries of_head(size_t head) const {
    Queries one = *this;
    one.q += head * head_size;
    one.out += head * head_size;
    one.n_group = 1;
    return one;
  }
};

}  // namespace troika::attention
