#include "lanes/host/attention/attention_tiles.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "lanes/host/attention/attention_args.h"

namespace troika::lanes {
namespace {

constexpr int kFewestTokens = 2;
// Counts the items for each worker: enough that none waits long for the others at the end, although
// later tokens see more and their items take longer.
constexpr size_t kItemsOfWorker = 4;
// Fewer queries than this are not worth a tile: too few share what is unpacked.
constexpr size_t kFewestQueries = 12;
// Counts the queries whose computation takes as long as reading and unpacking the keys and values
// of an item.
constexpr size_t kQueriesToUnpack = 20;

// Returns how many tokens an item has. Where tokens are many, items are the largest possible. Where
// they are few, items are so large that the worker with most to do ends first.
size_t tokens_of_item(const BoundAttention& attention, const Run& run, int n_workers) {
  const auto n_group = static_cast<size_t>(attention.n_group);
  const auto n_heads = static_cast<size_t>(attention.n_heads());
  const auto n_tokens = static_cast<size_t>(run.n_tokens);
  const auto workers = static_cast<size_t>(n_workers);
  const auto tokens_for = [&](size_t n_queries) {
    return std::max<size_t>(kFewestTokens, n_queries / n_group);
  };
  const size_t most = tokens_for(kernels::kTileQueries), fewest = tokens_for(kFewestQueries);
  if (n_tokens * n_heads / (kItemsOfWorker * workers) >= most) return most;
  size_t best = most, least = SIZE_MAX;
  for (size_t n_parts = (n_tokens + most - 1) / most;; ++n_parts) {
    const size_t of_item = (n_tokens + n_parts - 1) / n_parts;
    const size_t items_of_worker = (n_parts * n_heads + workers - 1) / workers;
    const size_t time = items_of_worker * (kQueriesToUnpack + of_item * n_group);
    if (time < least) least = time, best = of_item;
    if (of_item <= fewest) return best;
  }
}

void attend_together(const BoundOp& bound, const OpContext& context, int worker, int head,
                     Tokens tokens, bool is_branching) {
  const Run& run = context.run;
  if (tokens.last - tokens.first < kFewestTokens) {
    context.kernels.attention(attention_of(bound, context, tokens.first, head));
    return;
  }
  std::array<kernels::SeenPositions, kernels::kTileQueries> seen;
  std::array<std::span<const uint32_t>, kernels::kTileQueries> branches;
  TROIKA_ASSERT(tokens.last - tokens.first <= seen.size());
  for (size_t token = tokens.first; token < tokens.last; ++token) {
    seen[token - tokens.first] = {first_seen(bound, run, token), run.visible[token].size()};
    branches[token - tokens.first] = run.visible[token].own;
  }
  kernels::AttentionTile tile;
  tile.first = attention_of(bound, context, tokens.first, head);
  tile.first.prefix = run.visible[tokens.last - 1].past;
  tile.first.own = run.visible[tokens.last - 1].own;
  tile.seen = std::span(seen).first(tokens.last - tokens.first);
  if (is_branching) tile.branches = std::span(branches).first(tile.seen.size());
  tile.q_token_stride = tile.out_token_stride = static_cast<size_t>(bound.output_width);
  tile.workspace = reinterpret_cast<float*>(context.stretch_of(worker));
  context.kernels.attention_tile(tile);
}

}  // namespace

int64_t n_attention_tiles(const BoundAttention& attention, const Run& run, int n_workers) {
  if (run.n_tokens < kFewestTokens) return 0;
  const size_t n_tokens = tokens_of_item(attention, run, n_workers);
  const size_t n_parts = (static_cast<size_t>(run.n_tokens) + n_tokens - 1) / n_tokens;
  return static_cast<int64_t>(n_parts) * attention.n_heads();
}

size_t attention_tile_bytes(int head_dim, int n_tokens) {
  if (n_tokens < kFewestTokens) return 0;
  return kernels::attention_tile_floats(static_cast<size_t>(head_dim)) * sizeof(float);
}

void run_attention_tile(const BoundOp& bound, const OpContext& context, int worker, int64_t item) {
  const Run& run = context.run;
  const auto& attention = bound.as<BoundAttention>();
  const auto n_heads = static_cast<int64_t>(attention.n_heads());
  const size_t n_together = tokens_of_item(attention, run, context.team.size());
  const int head = attention.first_head + static_cast<int>(item % n_heads);
  const size_t first = static_cast<size_t>(item / n_heads) * n_together;
  Tokens tokens = {first, std::min(first + n_together, static_cast<size_t>(run.n_tokens))};
  while (tokens.first < tokens.last) {
    const Tokens seeing = seeing_together(run, tokens);
    const Tokens branching = branching_together(bound, run, tokens);
    const bool is_branching = branching.last > seeing.last;
    const Tokens together = is_branching ? branching : seeing;
    attend_together(bound, context, worker, head, together, is_branching);
    tokens.first = together.last;
  }
}

}  // namespace troika::lanes
