#include "lanes/host/attention/attention.h"

#include <algorithm>

#include "lanes/host/attention/attention_args.h"
#include "lanes/host/attention/attention_tiles.h"
#include "lanes/host/attention/prompt_attention.h"
#include "lanes/host/sparse/attention_stretches.h"
#include "lanes/host/sparse/head_parts.h"
#include "lanes/host/sparse/sparse_attention.h"

namespace troika::lanes {
namespace {

void store_keys_and_values(const BoundOp& bound, const OpContext& context, int worker) {
  const auto& attention = bound.as<BoundAttention>();
  const Run& run = context.run;
  const cache::KvShape& shape = run.kv->shape();
  const auto head_dim = static_cast<size_t>(shape.head_dim);
  const size_t kv_width = static_cast<size_t>(shape.n_kv_heads) * head_dim;
  const int layer = bound.op.layer;
  const float *keys = context.input(bound, 1), *values = context.input(bound, 2);
  const Share share = share_of(run.n_tokens, worker, context.team.n_active());
  for (int64_t token = share.begin; token < share.end; ++token) {
    const auto index = static_cast<size_t>(token);
    const cache::Slot slot = run.slots[index];
    for (int head = attention.first_head; head < attention.last_head; ++head) {
      const size_t offset = index * kv_width + static_cast<size_t>(head) * head_dim;
      context.kernels.store_kv(shape.type, keys + offset, run.kv->key_row(layer, slot, head),
                               head_dim);
      context.kernels.store_kv(shape.type, values + offset, run.kv->value_row(layer, slot, head),
                               head_dim);
    }
  }
}

// Where each worker has this many items, all workers stay busy although items are not divided.
constexpr int64_t kEnoughItems = 4;

// Returns into how many segments the workers divide what sees so many positions; 0: it stays whole.
size_t n_divided_segments(size_t n_positions) {
  const size_t n = (n_positions + kernels::kAttentionSegment - 1) / kernels::kAttentionSegment;
  return n > 1 ? n : 0;
}

// Returns into how many segments the attention of each (token, head) is divided between the
// workers; 0 where they share undivided items.
size_t n_shared_segments(const BoundOp& bound, const Run& run, int n_workers) {
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * bound.as<BoundAttention>().n_heads();
  if (n_workers == 1 || n_items >= kEnoughItems * n_workers) return 0;
  size_t most_positions = 0;
  for (int token = 0; token < run.n_tokens; ++token) {
    const cache::VisibleSlots& visible = run.visible[static_cast<size_t>(token)];
    most_positions = std::max(most_positions, visible.within(bound.op.window).size());
  }
  return n_divided_segments(most_positions);
}

// Returns how many floats the result of one segment takes, for all heads that share keys and
// values.
size_t segment_floats(const BoundAttention& attention) {
  return static_cast<size_t>(attention.n_group) *
         kernels::attention_part_floats(static_cast<uint32_t>(attention.head_dim));
}

// Returns how many floats the lists of all workers take for tokens that see at most n_positions
// positions. REQUIRES: the op takes lists.
size_t list_floats(const BoundAttention& attention, size_t n_positions, int n_workers) {
  const size_t bytes = is_of_heads(attention.role) ? head_list_bytes(attention, n_positions)
                                                   : sparse_list_bytes(attention, n_positions);
  return static_cast<size_t>(n_workers) * bytes / sizeof(float);
}

// Says whether runs of an op may divide what they attend to into segments.
bool may_share_segments(const BoundAttention& attention) {
  return attention.role == Role::kWhole && !attention.shares_keys && !attention.sparse.is_sparse();
}

// Computes items of one (token, key/value head) each: later tokens see more and cost more.
struct SingleItems {
  const BoundOp& bound;
  const OpContext& context;
  int n_heads = bound.as<BoundAttention>().n_heads();
  int64_t n = static_cast<int64_t>(context.run.n_tokens) * n_heads;

  kernels::Attention at(int64_t item) const {
    return attention_of(bound, context, static_cast<size_t>(item / n_heads),
                        bound.as<BoundAttention>().first_head + static_cast<int>(item % n_heads));
  }
};

// Attends where items are few: the workers share the segments of items, too, which changes no bit.
void attend_in_segments(const SingleItems& items, size_t most_segments, int index, int worker) {
  const OpContext& context = items.context;
  const size_t floats = segment_floats(items.bound.as<BoundAttention>());
  const size_t item_floats = most_segments * floats;
  const auto n_segments = static_cast<int64_t>(most_segments);
  share_items(context, index, worker, items.n * n_segments, [&](int64_t i) {
    const kernels::Attention args = items.at(i / n_segments);
    const auto segment = static_cast<size_t>(i % n_segments);
    if (segment >= kernels::n_attention_segments(args)) return;
    float* parts = context.attention_parts + static_cast<size_t>(i / n_segments) * item_floats;
    context.kernels.attention_segment(args, segment, parts + segment * floats);
  });
  context.team.barrier().wait();
  const Share share = share_of(items.n, worker, context.team.n_active());
  for (int64_t item = share.begin; item < share.end; ++item) {
    context.kernels.attention_merge(
        items.at(item), context.attention_parts + static_cast<size_t>(item) * item_floats);
  }
}

// Shows the queries of a run to the observer. REQUIRES: keys are stored.
void show(const BoundOp& bound, const OpContext& context) {
  const auto& attention = bound.as<BoundAttention>();
  const auto n_tokens = static_cast<size_t>(context.run.n_tokens);
  for (Tokens next = {0, 0}; next.last < n_tokens;) {
    next = seeing_together(context.run, {next.last, n_tokens});
    for (int head = attention.first_head; head < attention.last_head; ++head) {
      context.run.observer->observe_attention(
          bound.op, head, positions_of(bound, context, next.last - 1, head),
          queries_of(bound, context, next.first, head), next.last - next.first);
    }
  }
}

}  // namespace

void run_attention(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const auto& attention = bound.as<BoundAttention>();
  if (is_of_heads(attention.role)) {
    run_head_part(bound, context, index, worker);
    return;
  }
  store_keys_and_values(bound, context, worker);
  context.team.barrier().wait();

  const Run& run = context.run;
  if (worker == 0 && run.observer != nullptr && attention.shares_keys) show(bound, context);
  if (attention.role == Role::kStore) return;
  if (attention.sparse.is_sparse()) {
    share_items(context, index, worker,
                n_sparse_attention_items(attention, run, context.team.size()),
                [&](int64_t item) { run_sparse_attention(bound, context, worker, item); });
    return;
  }
  if (attention.shares_keys) {
    share_items(context, index, worker, n_prompt_attention_items(attention, run),
                [&](int64_t item) { run_prompt_attention(bound, context, worker, item); });
    return;
  }
  const SingleItems items = {bound, context};
  const size_t most_segments = n_shared_segments(bound, run, context.team.size());
  if (most_segments > 0) {
    attend_in_segments(items, most_segments, index, worker);
    return;
  }
  const int64_t n_tiles = n_attention_tiles(attention, run, context.team.size());
  if (n_tiles > 0) {
    share_items(context, index, worker, n_tiles,
                [&](int64_t tile) { run_attention_tile(bound, context, worker, tile); });
  } else {
    share_items(context, index, worker, items.n,
                [&](int64_t item) { context.kernels.attention(items.at(item)); });
  }
}

bool takes_lists(const BoundAttention& attention) {
  return is_of_heads(attention.role) ||
         (attention.role == Role::kWhole && attention.sparse.is_sparse());
}

size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers) {
  const auto& attention = bound.as<BoundAttention>();
  if (takes_lists(attention)) return list_floats(attention, most_seen(run), n_workers);
  if (!may_share_segments(attention)) return 0;
  return n_shared_segments(bound, run, n_workers) * static_cast<size_t>(run.n_tokens) *
         static_cast<size_t>(attention.n_heads()) * segment_floats(attention);
}

size_t most_attention_parts_floats(const BoundAttention& attention, int window,
                                   const AttentionReach& reach, int n_workers) {
  if (takes_lists(attention)) return list_floats(attention, reach.n_positions, n_workers);
  if (!may_share_segments(attention) || n_workers == 1) return 0;
  const size_t n_seen =
      window > 0 ? std::min(reach.n_positions, static_cast<size_t>(window)) : reach.n_positions;
  const int64_t n_heads = attention.n_heads();
  const int64_t n_tokens = std::min<int64_t>(
      reach.n_tokens, (kEnoughItems * n_workers - 1) / std::max<int64_t>(n_heads, 1));
  return n_divided_segments(n_seen) * static_cast<size_t>(n_tokens * n_heads) *
         segment_floats(attention);
}

size_t attention_bytes(const BoundAttention& attention, int n_tokens) {
  // Only the exact part attends, and to everything where a token does not choose.
  if (attention.role == Role::kExact) return prompt_attention_bytes(attention);
  if (attention.role != Role::kWhole) return 0;
  if (attention.sparse.is_sparse()) return sparse_attention_bytes(attention);
  return attention.shares_keys ? prompt_attention_bytes(attention)
                               : attention_tile_bytes(attention.head_dim, n_tokens);
}

}  // namespace troika::lanes
