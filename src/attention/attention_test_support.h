// Makes keys, values and queries for tests of attention, and computes plain sums in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/areas.h"
#include "attention/positions.h"
#include "base/cpu_features.h"
#include "kernels/choose.h"

namespace troika::attention {

// One head of keys over n positions, and the queries of the last n_tokens of them. Some positions
// are heavy: most queries attend to them.
struct TestHead {
  size_t n, n_tokens, head_size, n_group;
  std::vector<float> keys, values, q, out;
  std::vector<uint32_t> slots;  // has the slot of each position, in random order
  std::vector<std::byte> key_page, value_page;
  const std::byte* pages[2];

  TestHead(size_t n, size_t n_tokens, size_t head_size, size_t n_group, uint32_t seed,
           tensor::Type type = tensor::Type::kF32, float key_bias = 0.0f);

  Positions positions() const { return positions_of(n); }
  Positions positions_of(size_t n_first) const;
  Queries queries();
  // Returns the result of a token and query head over the positions `seen`, computed in double.
  std::vector<double> plain(size_t token, size_t head, const std::vector<uint32_t>& seen) const;
  // Returns the score of a position, computed in double.
  double score(size_t token, size_t head, size_t position) const;
  const float* query(size_t token, size_t head) const {
    return q.data() + (token * n_group + head) * head_size;
  }
  tensor::Type type;
  float scale = 0.125f, soft_cap = 0.0f;
};

// Writes the values as levels -127 .. 127. Larger values are clipped: returns how many are.
size_t quantize_by(std::span<const float> values, float scale, int8_t* levels);

// Returns the kernels of this machine.
const kernels::Table& table_here();
// Returns the largest difference of b and of a from `offset` on. What is no number, in either of
// them, is infinitely far from everything.
double largest_difference(const std::vector<float>& a, size_t offset, const std::vector<double>& b);

}  // namespace troika::attention
