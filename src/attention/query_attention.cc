#include "attention/query_attention.h"

#include <algorithm>

#include "attention/areas.h"
#include "attention/choose/key_levels.h"
#include "attention/choose/select.h"
#include "base/error.h"

namespace troika::attention {
namespace {

// Tokens whose scores are computed together.
constexpr size_t kTokensAtOnce = 4;

struct QueryAreas {
  KeyLevels keys;      // (n_positions)
  std::byte* queries;  // (kTokensAtOnce * n_group, query_level_bytes)
  float* scaled;       // (head_size)
  float* scores;       // (kTokensAtOnce * n_group, n_positions)
  uint32_t* chosen;    // (n_positions): positions, then slots

  QueryAreas(const QueryRoom& room, size_t n_positions, Areas& areas)
      : keys(areas, room.head_size, n_positions) {
    const size_t n_queries = kTokensAtOnce * room.n_group;
    queries = areas.take<std::byte>(n_queries * query_level_bytes(room.head_size));
    scaled = areas.take<float>(room.head_size);
    scores = areas.take<float>(n_queries * n_positions);
    chosen = areas.take<uint32_t>(n_positions);
  }
};

kernels::Attention exact_of(const Positions& positions, const Queries& queries) {
  kernels::Attention args;
  args.q_stride = args.out_stride = queries.head_size;
  args.n_heads = 1;
  args.head_size = static_cast<uint32_t>(queries.head_size);
  args.k = positions.k;
  args.v = positions.v;
  args.scale = queries.scale;
  args.soft_cap = queries.soft_cap;
  return args;
}

}  // namespace

size_t QueryRoom::bytes(size_t n_positions) const {
  Areas areas(nullptr);
  const QueryAreas counted(*this, n_positions, areas);
  return areas.bytes();
}

void attend_by_query(const kernels::Table& table, const Positions& positions,
                     const Queries& queries, size_t begin, size_t n_tokens,
                     const std::function<double(size_t head)>& share_of, const QueryRoom& room,
                     std::byte* workspace) {
  const size_t n_positions = positions.size();
  TROIKA_ASSERT(begin + n_tokens == n_positions && begin >= kMeanEnd);
  Areas areas(workspace);
  QueryAreas buffers(room, n_positions, areas);
  buffers.keys.set_mean(table, positions);
  buffers.keys.pack(table, positions, 0, n_positions, [](size_t i) { return i; });
  kernels::Attention exact = exact_of(positions, queries);
  kernels::PanelProduct product;
  product.last_strip = kernels::n_strips(n_positions);
  product.x = buffers.queries;
  product.x_stride_bytes = query_level_bytes(room.head_size);
  product.y = buffers.scores;
  product.y_stride = n_positions;
  for (size_t first = 0; first < n_tokens; first += kTokensAtOnce) {
    const size_t n_now = std::min(kTokensAtOnce, n_tokens - first);
    for (size_t i = 0; i < n_now * room.n_group; ++i) {
      pack_query(table, queries, first + i / room.n_group, i % room.n_group, buffers.scaled,
                 buffers.queries + i * product.x_stride_bytes);
    }
    product.n_tokens = n_now * room.n_group;
    table.matmul_int8(buffers.keys.panels(n_positions), product);
    for (size_t i = 0; i < product.n_tokens; ++i) {
      const size_t token = first + i / room.n_group, head = i % room.n_group;
      const size_t n_seen = begin + token + 1, k = count_of_share(share_of(head), n_seen);
      select_largest({buffers.scores + i * n_positions, n_seen}, k, buffers.chosen);
      for (size_t j = 0; j < k; ++j) buffers.chosen[j] = positions.slot(buffers.chosen[j]);
      const size_t offset = token * queries.stride + head * queries.head_size;
      exact.q = queries.q + offset;
      exact.out = queries.out + offset;
      exact.prefix = {buffers.chosen, k};
      table.attention(exact);
    }
  }
}

}  // namespace troika::attention
