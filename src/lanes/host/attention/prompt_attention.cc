#include "lanes/host/attention/prompt_attention.h"

#include <algorithm>

#include "attention/areas.h"
#include "attention/panel_attention.h"

namespace troika::lanes {
namespace {

attention::PanelRoom room_of(const BoundAttention& attention) {
  const auto n_group = static_cast<size_t>(attention.n_group);
  const size_t n_tokens = attention::tokens_together(n_group);
  return {static_cast<size_t>(attention.head_dim), n_group, n_tokens, n_tokens};
}

}  // namespace

int64_t n_prompt_attention_items(const BoundAttention& attention, const Run& run) {
  const size_t n_tokens = room_of(attention).n_tokens;
  const size_t n_parts = (static_cast<size_t>(run.n_tokens) + n_tokens - 1) / n_tokens;
  return static_cast<int64_t>(n_parts) * attention.n_heads();
}

size_t prompt_attention_bytes(const BoundAttention& attention) {
  const attention::PanelRoom room = room_of(attention);
  attention::Areas areas(nullptr);
  areas.take<kernels::SeenPositions>(room.n_tokens);
  return areas.bytes() + room.bytes();
}

void attend_to_all(const BoundOp& bound, const OpContext& context, int worker, int head,
                   Tokens tokens, int place) {
  attention::PanelRoom room = room_of(bound.as<BoundAttention>());
  if (place >= 0) room.n_group = 1;
  attention::Areas areas(context.stretch_of(worker));
  auto* const seen = areas.take<kernels::SeenPositions>(room.n_tokens);
  const Run& run = context.run;
  while (tokens.first < tokens.last) {
    // Tokens whose lists do not continue each other are attended for apart.
    Tokens together = seeing_together(run, tokens);
    together.last = std::min(together.last, together.first + room.n_tokens);
    for (size_t token = together.first; token < together.last; ++token) {
      seen[token - together.first] = {first_seen(bound, run, token), run.visible[token].size()};
    }
    attention::Queries queries = queries_of(bound, context, together.first, head);
    if (place >= 0) queries = queries.of_head(static_cast<size_t>(place));
    attention::attend_in_panels(context.kernels,
                                positions_of(bound, context, together.last - 1, head), queries,
                                std::span(seen, together.last - together.first), room,
                                context.stretch_of(worker) + areas.bytes());
    tokens.first = together.last;
  }
}

void run_prompt_attention(const BoundOp& bound, const OpContext& context, int worker,
                          int64_t item) {
  const auto& attention = bound.as<BoundAttention>();
  const int64_t n_heads = attention.n_heads();
  const size_t n_together = room_of(attention).n_tokens;
  const auto n_tokens = static_cast<size_t>(context.run.n_tokens);
  const size_t first = static_cast<size_t>(item / n_heads) * n_together;
  attend_to_all(bound, context, worker, attention.first_head + static_cast<int>(item % n_heads),
                {first, std::min(first + n_together, n_tokens)});
}

}  // namespace troika::lanes
