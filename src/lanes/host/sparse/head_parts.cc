#include "lanes/host/sparse/head_parts.h"

#include <algorithm>
#include <cstring>

#include "attention/choose/estimate.h"
#include "attention/choose/select.h"
#include "attention/query_attention.h"
#include "lanes/host/attention/prompt_attention.h"
#include "lanes/host/sparse/attention_stretches.h"

namespace troika::lanes {
namespace {

// Counts the parts of a task's tokens for each worker: enough that none waits long for the others,
// although later tokens see more.
constexpr int64_t kPartsOfWorker = 4;

class HeadPart {
 public:
  using KeyHead = BoundAttention::KeyHead;

  HeadPart(const BoundOp& bound, const OpContext& context, int worker)
      : bound_(bound),
        attention_(bound.as<BoundAttention>()),
        context_(context),
        run_(context.run),
        worker_(worker) {
    const size_t bytes = head_list_bytes(attention_, most_seen(run_));
    lists_ =
        reinterpret_cast<std::byte*>(context.attention_parts) + static_cast<size_t>(worker) * bytes;
  }

  // Estimates the queries in part `part` of n_parts, for those of the task's heads that share a
  // head of keys.
  void estimate(const KeyHead& key_head, int64_t part, int64_t n_parts) const {
    for_stretches(attention_, run_, [&](const Stretch& stretch) {
      if (!stretch.is_sparse) return;
      const size_t step = attention_.sparse.goes_by_tile() ? attention::kTileTokens : 1;
      const size_t n_steps = (stretch.tokens.last - stretch.tokens.first) / step;
      const Share share = share_of(static_cast<int64_t>(n_steps), static_cast<int>(part),
                                   static_cast<int>(n_parts));
      const Tokens tokens = {stretch.tokens.first + step * static_cast<size_t>(share.begin),
                             stretch.tokens.first + step * static_cast<size_t>(share.end)};
      if (tokens.first < tokens.last) estimate(key_head, tokens);
    });
  }

  void select(int head, Tokens part) const {
    auto* const chosen = reinterpret_cast<uint32_t*>(lists_);
    for_stretches(attention_, run_, [&](const Stretch& stretch) {
      if (!stretch.is_sparse) return;
      const Tokens tokens = common(stretch.tokens, part);
      for (size_t token = tokens.first; token < tokens.last; ++token) {
        const size_t n_seen = position_of(run_, token) + 1;
        const size_t k =
            attention::choose_positions(context_.kernels, {scores(head, token), n_seen},
                                        attention_.sparse.share_of(head), chosen);
        std::memcpy(scores(head, token), chosen, k * sizeof(uint32_t));
      }
    });
  }

  void attend(int head, Tokens part) const {
    const int key_head = head / attention_.n_group;
    const auto place = static_cast<size_t>(head % attention_.n_group);
    for_stretches(attention_, run_, [&](const Stretch& stretch) {
      const Tokens tokens = common(stretch.tokens, part);
      if (tokens.first >= tokens.last) return;
      if (!stretch.is_sparse) {
        attend_to_all(bound_, context_, worker_, key_head, tokens, static_cast<int>(place));
        return;
      }
      const attention::Positions positions =
          positions_of(bound_, context_, tokens.last - 1, key_head);
      const attention::Queries queries = queries_of(bound_, context_, tokens.first, key_head);
      for (size_t token = tokens.first; token < tokens.last; ++token) {
        const size_t k = attention::count_of_share(attention_.sparse.share_of(head),
                                                   position_of(run_, token) + 1);
        attention::attend_to_chosen(context_.kernels, positions, queries, token - tokens.first,
                                    place,
                                    {attention_.areas->chosen(run_.buffer_set, head, token), k});
      }
    });
  }

 private:
  static Tokens common(Tokens a, Tokens b) {
    return {std::max(a.first, b.first), std::min(a.last, b.last)};
  }
  float* scores(int head, size_t token) const {
    return attention_.areas->scores(run_.buffer_set, head, token);
  }

  void estimate(const KeyHead& key_head, Tokens tokens) const {
    const attention::Positions positions =
        positions_of(bound_, context_, tokens.last - 1, key_head.head);
    const attention::Queries queries = queries_of(bound_, context_, tokens.first, key_head.head);
    attention::Areas areas(lists_);
    attention::QueryEstimate estimate(context_.kernels, positions, queries,
                                      position_of(run_, tokens.first), attention_.sparse.buckets,
                                      areas);
    const int first_head = key_head.head * attention_.n_group;
    estimate.score_heads(0, tokens.last - tokens.first, key_head.places, attention_.areas->stride(),
                         [&](size_t place, size_t token) {
                           return scores(first_head + static_cast<int>(place),
                                         tokens.first + token);
                         });
  }

  const BoundOp& bound_;
  const BoundAttention& attention_;
  const OpContext& context_;
  const Run& run_;
  int worker_;
  std::byte* lists_;  // the lists of this worker
};

}  // namespace

std::vector<BoundAttention::KeyHead> key_heads_of(std::span<const int> query_heads, int n_group) {
  std::vector<BoundAttention::KeyHead> heads;
  for (const int head : query_heads) {
    const auto has_it = [&](const auto& one) { return one.head == head / n_group; };
    auto found = std::find_if(heads.begin(), heads.end(), has_it);
    if (found == heads.end()) found = heads.insert(found, {head / n_group, {}});
    found->places.push_back(static_cast<size_t>(head % n_group));
  }
  return heads;
}

size_t head_list_bytes(const BoundAttention& attention, size_t n_positions) {
  attention::Areas areas(nullptr);
  if (attention.role == Role::kEstimate) {
    attention::QueryEstimate::count(static_cast<size_t>(attention.head_dim), n_positions, areas);
  } else if (attention.role == Role::kSelect) {
    areas.take<uint32_t>(n_positions);
  }
  return areas.bytes();
}

void run_head_part(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const auto& attention = bound.as<BoundAttention>();
  const HeadPart part(bound, context, worker);
  const int64_t n_workers = context.team.size();
  if (attention.role == Role::kEstimate) {
    const std::vector<BoundAttention::KeyHead>& key_heads = attention.key_heads;
    const auto n_items = static_cast<int64_t>(key_heads.size()) * n_workers;
    share_items(context, index, worker, n_items, [&](int64_t item) {
      part.estimate(key_heads[static_cast<size_t>(item / n_workers)], item % n_workers, n_workers);
    });
    return;
  }
  const int64_t n_parts = n_workers == 1 ? 1 : kPartsOfWorker * n_workers;
  const auto n_items = static_cast<int64_t>(attention.query_heads.size()) * n_parts;
  share_items(context, index, worker, n_items, [&](int64_t item) {
    const Share share =
        share_of(context.run.n_tokens, static_cast<int>(item % n_parts), static_cast<int>(n_parts));
    const Tokens tokens = {static_cast<size_t>(share.begin), static_cast<size_t>(share.end)};
    const int head = attention.query_heads[static_cast<size_t>(item / n_parts)];
    if (attention.role == Role::kSelect) {
      part.select(head, tokens);
    } else {
      part.attend(head, tokens);
    }
  });
}

}  // namespace troika::lanes
