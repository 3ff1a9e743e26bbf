#include "lanes/host/attention/attention_args.h"

namespace troika::lanes {
namespace {

bool continues(const Run& run, size_t token) {
  const cache::VisibleSlots &a = run.visible[token - 1], &b = run.visible[token];
  return a.past.data() == b.past.data() && a.past.size() == b.past.size() &&
         a.own.data() == b.own.data() && a.own.size() <= b.own.size();
}

}  // namespace

kernels::Attention attention_of(const BoundOp& bound, const OpContext& context, size_t token,
                                int head) {
  const Run& run = context.run;
  const cache::KvShape& shape = run.kv->shape();
  const auto& attention = bound.as<BoundAttention>();
  const auto head_dim = static_cast<size_t>(attention.head_dim);
  const auto n_group = static_cast<size_t>(attention.n_group);
  const auto q_width = static_cast<size_t>(bound.output_width);
  const size_t offset = token * q_width + static_cast<size_t>(head) * n_group * head_dim;
  kernels::Attention args;
  args.q = context.input(bound) + offset;
  args.q_stride = head_dim;
  args.n_heads = static_cast<uint32_t>(n_group);
  args.head_size = static_cast<uint32_t>(head_dim);
  args.k = {run.kv->key_pages(bound.op.layer), cache::KvCache::kPageSlotsLog2, shape.head_bytes(),
            run.kv->head_offset_bytes(head), shape.type};
  args.v = args.k;
  args.v.pages = run.kv->value_pages(bound.op.layer);
  const cache::VisibleSlots visible = run.visible[token].within(bound.op.window);
  args.prefix = visible.past;
  args.own = visible.own;
  args.scale = bound.op.scale;
  args.soft_cap = bound.op.soft_cap;
  args.out = context.output(bound) + offset;
  args.out_stride = head_dim;
  return args;
}

attention::Positions positions_of(const BoundOp& bound, const OpContext& context, size_t token,
                                  int head) {
  const kernels::Attention args = attention_of(bound, context, token, head);
  const cache::VisibleSlots& visible = context.run.visible[token];
  return {args.k, args.v, visible.past, visible.own};
}

attention::Queries queries_of(const BoundOp& bound, const OpContext& context, size_t token,
                              int head) {
  const kernels::Attention args = attention_of(bound, context, token, head);
  return {args.q,         args.out,     static_cast<size_t>(bound.output_width),
          args.head_size, args.n_heads, args.scale,
          args.soft_cap};
}

Tokens seeing_together(const Run& run, Tokens tokens) {
  size_t last = tokens.first + 1;
  while (last < tokens.last && continues(run, last)) ++last;
  return {tokens.first, last};
}

Tokens branching_together(const BoundOp& bound, const Run& run, Tokens tokens) {
  const std::span<const cache::Slot> past = run.visible[tokens.first].past;
  const auto goes_along = [&](size_t token) {
    const cache::VisibleSlots& visible = run.visible[token];
    return visible.past.data() == past.data() && visible.past.size() == past.size() &&
           first_seen(bound, run, token) == 0;
  };
  size_t last = tokens.first + 1;
  if (!goes_along(tokens.first)) return {tokens.first, last};
  while (last < tokens.last && goes_along(last)) ++last;
  return {tokens.first, last};
}

size_t first_seen(const BoundOp& bound, const Run& run, size_t token) {
  const cache::VisibleSlots& visible = run.visible[token];
  return visible.size() - visible.within(bound.op.window).size();
}

}  // namespace troika::lanes
