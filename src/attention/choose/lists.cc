#include "attention/choose/lists.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "attention/choose/select.h"
#include "base/error.h"

namespace troika::attention {
namespace {

// Replaces each value by the first in order among itself and its neighbours.
template <typename IsBefore>
void spread(std::span<float> values, const IsBefore& is_before) {
  float before = values.front();
  for (size_t i = 0; i < values.size(); ++i) {
    const float own = values[i], behind = i + 1 < values.size() ? values[i + 1] : own;
    values[i] = std::min({before, own, behind}, is_before);
    before = own;
  }
}

// Returns, (n_blocks), what each block of kTileTokens positions is worth to the head that values it
// most; nothing where a score is no finite number. One of a key with an infinite element may be
// infinite with either sign, and the mean query has that of some of its queries alone.
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
      const auto score = static_cast<float>(sum);
      if (!std::isfinite(score)) return {};
      scores[h * n_blocks + block] = score;
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

size_t list_of_tile(const kernels::Table& table, double share, size_t begin, float* importance,
                    uint32_t* out) {
  const size_t local = begin - kLocal;
  size_t n = 0;
  for (size_t p = 0; p < kFirst; ++p) out[n++] = static_cast<uint32_t>(p);
  const std::span<float> between(importance + kFirst, local - kFirst);
  spread(between, std::greater<>());
  const size_t k = count_of_share(share, between.size());
  select_largest(table, between, k, out + n);
  for (const size_t end = n + k; n < end; ++n) out[n] += static_cast<uint32_t>(kFirst);
  for (size_t p = local; p < begin; ++p) out[n++] = static_cast<uint32_t>(p);
  return n;
}

void list_of_marks(size_t begin, float* marks, uint32_t* out,
                   std::span<size_t, kTileTokens> n_seen) {
  const size_t local = begin - kLocal;
  const std::span<float> between(marks + kFirst, local - kFirst);
  spread(between, std::less<>());
  size_t n_marked[kTileTokens + 1] = {};
  for (const float mark : between) ++n_marked[static_cast<size_t>(mark)];
  for (size_t p = 0; p < kFirst; ++p) *out++ = static_cast<uint32_t>(p);
  for (size_t p = local; p < begin; ++p) *out++ = static_cast<uint32_t>(p);
  // Positions are listed at the first token that sees them; next[i] points to where token i lists
  // its next position.
  uint32_t* next[kTileTokens];
  size_t n = kFirst + kLocal;
  for (size_t i = 0; i < kTileTokens; ++i) {
    next[i] = out;
    out += n_marked[i];
    *out++ = static_cast<uint32_t>(begin + i);
    n_seen[i] = n += n_marked[i] + 1;
  }
  for (size_t p = kFirst; p < local; ++p) {
    if (marks[p] < kNeverSeen) *next[static_cast<size_t>(marks[p])]++ = static_cast<uint32_t>(p);
  }
}

size_t list_of_blocks(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, double share, uint32_t* out) {
  TROIKA_ASSERT(begin % kTileTokens == 0 && begin >= kLeastPositions);
  const size_t n_blocks = begin / kTileTokens;
  const std::vector<float> worth = worth_of_blocks(table, positions, queries, n_blocks);
  if (worth.empty()) {  // A key that is no number must not be lost.
    std::iota(out, out + begin, 0u);
    return begin;
  }
  // The first and the last block are kept in any case.
  const std::span<const float> between = std::span(worth).subspan(1, n_blocks - 2);
  std::vector<uint32_t> chosen(between.size());
  const size_t k = count_of_share(share, between.size());
  select_largest(table, between, k, chosen.data());
  chosen.resize(k);
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
