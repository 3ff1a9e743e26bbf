// How much useful work a pass is: rates are turned into fractions of a peak with this. Padding does
// not count.
#pragma once

#include <vector>

#include "cache/kv_cache.h"
#include "model/blueprint.h"
#include "weights/store.h"

namespace troika::measure {

// Operations of a model. A multiplication and an addition are two operations.
struct Work {
  double body_per_token = 0.0;  // products with weights, except those of the head
  double head_per_output = 0.0;
  double attention_per_pair = 0.0;  // for each pair of a token and a position that it sees
  // Attention in blocks whose tokens see at most `window` positions.
  struct Windowed {
    int window;
    double per_pair;
  };
  std::vector<Windowed> windowed = {};

  // Returns the operations of a prompt of n_tokens behind `past` others, with logits of the last
  // token only.
  double prefill(int n_tokens, int past = 0) const;
  // Returns the operations of a chain of n_tokens behind `past` others, with logits of all of them.
  double step(int n_tokens, int past) const;
};

// Returns the bytes of keys and values that a token reads which stands behind n_positions
// positions: fewer where blocks have windows.
double kv_bytes_per_step(const model::Blueprint& blueprint, const cache::KvShape& shape,
                         double n_positions);

Work count_work(const model::Blueprint& blueprint, const weights::Store& weights);

}  // namespace troika::measure
