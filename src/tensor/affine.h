// Says what the levels of a group of weights mean: weight = scale * level - min. Every block format
// describes itself by
//   kType, kLength, kGroup           its type, the weights of a block and of a group
//   unpack(block, int8_t* levels)    kLength levels in the order of the row
//   find_groups(block, Affine* g)    kLength / kGroup scales and minima, exact in float
//   encode(const float* x, block)    the nearest block that it finds
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::tensor {

struct Affine {
  float scale = 0;
  float min = 0;  // 0 in formats without one
};

template <typename Block>
void decode(const Block& block, float* y) {
  Affine groups[Block::kLength / Block::kGroup];
  int8_t levels[Block::kLength];
  find_groups(block, groups);
  unpack(block, levels);
  for (size_t i = 0; i < Block::kLength; i += Block::kGroup) {
    const auto [scale, min] = groups[i / Block::kGroup];
    for (size_t j = i; j < i + Block::kGroup; ++j) y[j] = scale * levels[j] - min;
  }
}

}  // namespace troika::tensor
