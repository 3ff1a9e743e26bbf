#include "lanes/host/sparse/sparse_attention.h"

#include <algorithm>

#include "attention/int8_attention.h"
#include "attention/query_attention.h"
#include "attention/tile_attention.h"
#include "lanes/host/attention/prompt_attention.h"
#include "lanes/host/sparse/attention_stretches.h"

namespace troika::lanes {
namespace {

constexpr size_t kTile = attention::kTileTokens;
// Counts the items for each worker: enough that none waits long for the others at the end, although
// later tiles see more.
constexpr int64_t kItemsOfWorker = 2;

bool is_by_tile(const BoundAttention& attention) { return plan::is_by_tile(attention.sparse.form); }

// Counts the tiles of an item in which each query chooses for itself: enough that quantising the
// keys, which each item does anew, takes little of its time.
constexpr size_t kTilesOfQueries = 8;

size_t most_tiles_of_item(const BoundAttention& attention) {
  if (is_by_tile(attention)) {
    return attention::tiles_together(static_cast<size_t>(attention.n_group));
  }
  return attention.sparse.form == plan::AttentionForm::kQuery ? kTilesOfQueries : 1;
}

// Returns how many tokens an item has. It changes no bit how many tiles share unpacked keys.
size_t tokens_of_item(const BoundAttention& attention, const Run& run, int n_workers) {
  const auto n_tiles =
      static_cast<int64_t>((static_cast<size_t>(run.n_tokens) + kTile - 1) / kTile);
  const int64_t wanted = n_tiles * attention.n_heads() / (kItemsOfWorker * n_workers);
  const auto most = static_cast<int64_t>(most_tiles_of_item(attention));
  return kTile * static_cast<size_t>(std::clamp<int64_t>(wanted, 1, most));
}

attention::TileRoom tile_room(const BoundAttention& attention, size_t n_tiles) {
  return {static_cast<size_t>(attention.head_dim), static_cast<size_t>(attention.n_group), n_tiles};
}

attention::Int8Room int8_room(const BoundAttention& attention) {
  return {static_cast<size_t>(attention.head_dim), static_cast<size_t>(attention.n_group)};
}

class SparseItem {
 public:
  SparseItem(const BoundOp& bound, const OpContext& context, int worker, int head)
      : bound_(bound),
        attention_(bound.as<BoundAttention>()),
        context_(context),
        run_(context.run),
        worker_(worker),
        head_(head) {
    const size_t bytes = sparse_list_bytes(attention_, most_seen(run_));
    auto* const lists = reinterpret_cast<std::byte*>(context.attention_parts);
    lists_ = lists + static_cast<size_t>(worker) * bytes;
  }

  // Computes the tiles that begin among these tokens: a tile belongs to the item in which it
  // begins.
  void attend(Tokens tokens) {
    Tokens together = {0, 0};
    const auto n_tokens = static_cast<size_t>(run_.n_tokens);
    while (together.last <= tokens.first) {
      together = seeing_together(run_, {together.last, n_tokens});
    }
    Tokens rest = together;
    while (rest.first < tokens.last) {
      const Stretch stretch = stretch_of(attention_, run_, rest);
      take(stretch, tokens);
      rest.first = stretch.tokens.last;
      if (rest.first == rest.last && rest.last < n_tokens) {
        rest = seeing_together(run_, {rest.last, n_tokens});
      } else if (rest.first == rest.last) {
        return;
      }
    }
  }

 private:
  // Computes the part of a stretch that belongs to the item's tokens.
  void take(const Stretch& stretch, Tokens tokens) {
    Tokens part = stretch.tokens;
    if (stretch.is_sparse && attention_.sparse.goes_by_tile()) {
      while (part.first < tokens.first) part.first += kTile;
      while (part.last >= tokens.last + kTile) part.last -= kTile;
    } else {
      part.first = std::max(part.first, tokens.first);
      part.last = std::min(part.last, tokens.last);
    }
    if (part.first >= part.last) return;
    if (!stretch.is_sparse) {
      attend_to_all(bound_, context_, worker_, head_, part);
      return;
    }
    if (!is_by_tile(attention_)) {
      attend_by_query(part);
    } else if (attention_.sparse.form == plan::AttentionForm::kInt8) {
      attend_in_int8(part);
    } else if (group_share() >= 1.0) {
      // Every position is kept: this way has the same bits, and is faster.
      attend_to_all(bound_, context_, worker_, head_, part);
    } else {
      attend_by_tile(part);
    }
    leave_out(part);
  }
  attention::ChoiceRule choice() const {
    if (attention_.sparse.form == plan::AttentionForm::kBlock)
      return attention::ChoiceRule::kBlocks;
    return attention_.sparse.above > 0.0 ? attention::ChoiceRule::kWeighty
                                         : attention::ChoiceRule::kPositions;
  }
  int first_query_head() const { return head_ * attention_.n_group; }
  double group_share() const {
    return attention_.sparse.share_of(first_query_head(), attention_.n_group);
  }

  void leave_out(Tokens tokens) {
    const attention::Queries queries = queries_of(bound_, context_, tokens.first, head_);
    for (int i = 0; i < attention_.n_group; ++i) {
      if (!attention_.sparse.is_left_out(first_query_head() + i)) continue;
      for (size_t t = 0; t < tokens.last - tokens.first; ++t) {
        std::fill_n(queries.out + t * queries.stride + static_cast<size_t>(i) * queries.head_size,
                    queries.head_size, 0.0f);
      }
    }
  }

  void attend_by_tile(Tokens tokens) {
    const attention::TileRoom room = tile_room(attention_, (tokens.last - tokens.first) / kTile);
    attention::attend_tiles(
        context_.kernels, positions_of(bound_, context_, tokens.last - 1, head_),
        queries_of(bound_, context_, tokens.first, head_), position_of(run_, tokens.first),
        {choice(), group_share(), attention_.sparse.above}, room, context_.stretch_of(worker_),
        lists_);
  }

  void attend_in_int8(Tokens tokens) {
    for (size_t first = tokens.first; first < tokens.last; first += kTile) {
      attention::attend_in_int8(
          context_.kernels, positions_of(bound_, context_, first + kTile - 1, head_),
          queries_of(bound_, context_, first, head_), position_of(run_, first),
          int8_room(attention_), context_.stretch_of(worker_));
    }
  }

  void attend_by_query(Tokens tokens) {
    const attention::QueryRoom room = {static_cast<size_t>(attention_.head_dim),
                                       static_cast<size_t>(attention_.n_group)};
    attention::attend_by_query(
        context_.kernels, positions_of(bound_, context_, tokens.last - 1, head_),
        queries_of(bound_, context_, tokens.first, head_), position_of(run_, tokens.first),
        tokens.last - tokens.first,
        [&](size_t head) {
          return attention_.sparse.share_of(first_query_head() + static_cast<int>(head));
        },
        attention_.sparse.buckets, room, lists_);
  }

  const BoundOp& bound_;
  const BoundAttention& attention_;
  const OpContext& context_;
  const Run& run_;
  int worker_;
  int head_;
  std::byte* lists_;
};

}  // namespace

int64_t n_sparse_attention_items(const BoundAttention& attention, const Run& run, int n_workers) {
  const size_t n_tokens = tokens_of_item(attention, run, n_workers);
  const size_t n_parts = (static_cast<size_t>(run.n_tokens) + n_tokens - 1) / n_tokens;
  return static_cast<int64_t>(n_parts) * attention.n_heads();
}

size_t sparse_attention_bytes(const BoundAttention& attention) {
  const size_t n_tiles = attention::tiles_together(static_cast<size_t>(attention.n_group));
  return std::max({prompt_attention_bytes(attention), tile_room(attention, n_tiles).bytes(),
                   int8_room(attention).bytes()});
}

size_t sparse_list_bytes(const BoundAttention& attention, size_t n_positions) {
  const auto n_group = static_cast<size_t>(attention.n_group);
  if (is_by_tile(attention)) {
    return tile_room(attention, attention::tiles_together(n_group)).list_bytes(n_positions);
  }
  return attention::QueryRoom{static_cast<size_t>(attention.head_dim), n_group}.bytes(n_positions);
}

void run_sparse_attention(const BoundOp& bound, const OpContext& context, int worker,
                          int64_t item) {
  const auto& attention = bound.as<BoundAttention>();
  const int64_t n_heads = attention.n_heads();
  const size_t n_tokens = tokens_of_item(attention, context.run, context.team.size());
  const size_t first = static_cast<size_t>(item / n_heads) * n_tokens;
  SparseItem(bound, context, worker, attention.first_head + static_cast<int>(item % n_heads))
      .attend({first, std::min(first + n_tokens, static_cast<size_t>(context.run.n_tokens))});
}

}  // namespace troika::lanes
