#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/select.h"
#include "attention/tile_attention.h"
#include "base/error.h"

namespace troika::attention {
namespace {

// (n_blocks): what blocks of kTileTokens positions are worth to the head that values them most.
std::vector<float> worth_of_blocks(const kernels::Table& table, const Positions& positions,
                                   const Queries& queries, size_t n_blocks) {
  const size_t d = queries.head_size;
  const float of_mean = 1.0f / static_cast<float>(kTileTokens);
  std::vector<float> key(d), mean(d), q(queries.n_group * d, 0.0f);
  for (size_t t = 0; t < kTileTokens; ++t) {
    table.add(q.data(), queries.q + t * queries.stride, q.data(), q.size());
  }
  table.scale(q.data(), of_mean * of_mean * queries.scale, q.data(), q.size());
  std::vector<float> scores(queries.n_group * n_blocks);
  for (size_t block = 0; block < n_blocks; ++block) {
    std::fill(mean.begin(), mean.end(), 0.0f);
    for (size_t p = block * kTileTokens; p < (block + 1) * kTileTokens; ++p) {
      table.load_kv(positions.k.type, positions.key(p), key.data(), d);
      table.add(mean.data(), key.data(), mean.data(), d);
    }
    for (size_t h = 0; h < queries.n_group; ++h) {
      double sum = 0;
      for (size_t i = 0; i < d; ++i) sum += double{q[h * d + i]} * mean[i];
      scores[h * n_blocks + block] = static_cast<float>(sum);
    }
  }
  std::vector<float> worth(n_blocks, -std::numeric_limits<float>::infinity()), shares(n_blocks);
  for (size_t h = 0; h < queries.n_group; ++h) {
    table.softmax(scores.data() + h * n_blocks, shares.data(), n_blocks);
    for (size_t block = 0; block < n_blocks; ++block) {
      worth[block] = std::max(worth[block], shares[block]);
    }
  }
  return worth;
}

}  // namespace

size_t list_of_blocks(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, double share, uint32_t* out) {
  TROIKA_ASSERT(begin % kTileTokens == 0 && begin >= kLeastPositions);
  const size_t n_blocks = begin / kTileTokens;
  const std::vector<float> worth = worth_of_blocks(table, positions, queries, n_blocks);
  // The first and the last block are there in any case.
  const std::span<const float> between = std::span(worth).subspan(1, n_blocks - 2);
  std::vector<uint32_t> chosen(count_of_share(share, between.size()));
  select_largest(between, chosen.size(), chosen.data());
  for (uint32_t& block : chosen) ++block;
  chosen.insert(chosen.begin(), 0);
  chosen.push_back(static_cast<uint32_t>(n_blocks - 1));
  size_t n = 0;
  for (const uint32_t block : chosen) {
    for (size_t i = 0; i < kTileTokens; ++i) {
      out[n++] = static_cast<uint32_t>(block * kTileTokens + i);
    }
  }
  return n;
}

}  // namespace troika::attention
