#include "tensor/q4_k.h"

namespace troika::tensor {
namespace {

void pack_multiples(const Multiples* multiples, uint8_t* packed) {
  for (int g = 0; g < 4; ++g) {
    packed[g] = multiples[g].scale;
    packed[g + 4] = multiples[g].min;
  }
  for (int g = 4; g < 8; ++g) {
    const auto [scale, min] = multiples[g];
    packed[g + 4] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
    packed[g - 4] = static_cast<uint8_t>(packed[g - 4] | scale >> 4 << 6);
    packed[g] = static_cast<uint8_t>(packed[g] | min >> 4 << 6);
  }
}

// Writes levels from 0 to high; the block gets their four low bits.
template <typename Block>
void encode_affine(const float* x, int high, Block& block, uint8_t* levels) {
  Multiples multiples[8];
  fit_affine(x, {Block::kGroup, high, 63}, block.d, block.dmin, multiples, levels);
  pack_multiples(multiples, block.multiples);
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const uint8_t *even = levels + 64 * pair, *odd = even + 32;
      block.levels[32 * pair + i] = static_cast<uint8_t>((even[i] & 15) | odd[i] << 4);
    }
  }
}

}  // namespace

void encode(const float* x, BlockQ4_K& block) {
  uint8_t levels[256];
  encode_affine(x, 15, block, levels);
}

void encode(const float* x, BlockQ5_K& block) {
  uint8_t levels[256];
  encode_affine(x, 31, block, levels);
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int g = 0; g < 8; ++g) bits |= levels[32 * g + i] >> 4 << g;
    block.fifth_bits[i] = static_cast<uint8_t>(bits);
  }
}

}  // namespace troika::tensor
