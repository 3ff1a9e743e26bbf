#include "lanes/host/bound_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lanes/host/attention_args.h"
#include "lanes/host/attention_tiles.h"
#include "lanes/host/experts.h"
#include "lanes/host/products.h"
#include "lanes/host/prompt_attention.h"
#include "lanes/host/shadow_products.h"
#include "model/rope.h"
#include "tensor/codec.h"
#include "tensor/strips.h"

namespace troika::lanes {
namespace {

using model::OpKind;

BoundOp bind(const model::Op& op, const Subgraph& subgraph, const weights::Store& weights,
             const Buffers& buffers, const kernels::Table& kernels, Precision precision) {
  BoundOp bound;
  bound.op = op;
  const model::Blueprint& blueprint = *subgraph.blueprint;
  if (op.kind == OpKind::kRope) {
    const model::Rope& rope = blueprint.ropes[static_cast<size_t>(op.rope)];
    bound.n_rotated = rope.n_dims;
    bound.is_half_split = rope.is_half_split;
    bound.first_pair = model::first_pair_of(blueprint.ropes, op.rope);
    bound.n_pairs = model::first_pair_of(blueprint.ropes, static_cast<int>(blueprint.ropes.size()));
  }
  bound.head_dim = blueprint.head_dim;
  bound.n_kv_heads = blueprint.n_kv_heads;
  if (is_of_experts(op)) {
    bound.n_experts = blueprint.n_experts;
    bound.n_experts_used = blueprint.n_experts_used;
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != model::kNone) bound.inputs[i] = buffers.view(op.inputs[i]).floats();
  }
  if (op.inputs[0] != model::kNone) bound.input_width = buffers.width(op.inputs[0]);
  bound.output = buffers.view(op.output).floats();
  bound.output_width = buffers.width(op.output);
  if (op.kind == OpKind::kExpertLinear) {
    bound.output_width /= bound.n_experts_used;
    if (op.takes_parts) bound.input_width /= bound.n_experts_used;
  }
  bound.last_column = bound.output_width;
  bound.last_head = bound.n_kv_heads;
  bound.per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
  if (op.kind == OpKind::kAttention &&
      static_cast<size_t>(bound.head_dim) > kernels::kMaxHeadSize) {
    throw Error(
        fmt::format("The model's attention heads have {} elements; at most {} are "
                    "supported.",
                    bound.head_dim, kernels::kMaxHeadSize));
  }
  bound.shares_keys = op.kind == OpKind::kAttention && plan::shares_keys(precision.prefill);
  if (op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear) {
    bind_product(&bound, weights, kernels, precision);
  } else if (op.kind == OpKind::kEmbed) {
    bound.weight.matrix = weights.matrix(op.weight);
  } else if (op.weight != model::kNone) {
    bound.weight_vector = weights.vector(op.weight);
  }
  if (op.bias != model::kNone) bound.bias = weights.vector(op.bias);
  return bound;
}

// The rows that a selection reads are those of the whole batch.
void take_tokens(const Subgraph& subgraph, const Buffers& buffers, BoundOp* bound) {
  const auto first = static_cast<size_t>(subgraph.slice.tokens.begin);
  const model::Op& op = bound->op;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == model::kNone || op.kind == OpKind::kSelect) continue;
    bound->inputs[i] += first * static_cast<size_t>(buffers.width(op.inputs[i]));
  }
  bound->output += first * static_cast<size_t>(buffers.width(op.output));
}

void take_slice(const Subgraph& subgraph, size_t index, const Buffers& buffers, BoundOp* bound) {
  const Slice& slice = subgraph.slice;
  const Range columns = slice.columns_of(index).within(bound->output_width);
  const Range heads = slice.heads.within(bound->n_kv_heads);
  bound->first_column = columns.begin;
  bound->last_column = columns.end;
  bound->first_head = heads.begin;
  bound->last_head = heads.end;
  if (slice.tokens.begin > 0) take_tokens(subgraph, buffers, bound);
}

void embed(const BoundOp& bound, const OpContext& context, int row) {
  const auto token = static_cast<size_t>(context.run.tokens[static_cast<size_t>(row)]);
  float* out =
      context.output(bound) + static_cast<size_t>(row) * static_cast<size_t>(bound.output_width);
  const auto n = static_cast<size_t>(bound.output_width);
  const std::byte* const rows = bound.weight.matrix.data;
  if (token < static_cast<size_t>(bound.weight.matrix.n_strip_rows)) {
    const size_t in_strip = token % tensor::kStripRows;
    tensor::decode_strip_row(bound.weight.matrix.type,
                             rows + (token - in_strip) * bound.weight.matrix.row_bytes, in_strip, n,
                             out);
  } else {
    tensor::dequantize_row(bound.weight.matrix.type, rows + token * bound.weight.matrix.row_bytes,
                           out, n);
  }
  if (bound.op.scale != 1.0f) context.kernels.scale(out, bound.op.scale, out, n);
}

void rope(const BoundOp& bound, const OpContext& context, int row) {
  float* x =
      context.output(bound) + static_cast<size_t>(row) * static_cast<size_t>(bound.output_width);
  const auto n_rot = static_cast<size_t>(bound.n_rotated);
  const size_t first_pair = static_cast<size_t>(row) * static_cast<size_t>(bound.n_pairs) +
                            static_cast<size_t>(bound.first_pair);
  const auto turn = bound.is_half_split ? context.kernels.rope_neox : context.kernels.rope_normal;
  turn(x, static_cast<size_t>(bound.op.n_heads), static_cast<size_t>(bound.head_dim), n_rot,
       context.run.rope_cos + first_pair, context.run.rope_sin + first_pair);
}

void activate(const BoundOp& bound, const OpContext& context, size_t offset) {
  const kernels::Table& kernels = context.kernels;
  const auto n = static_cast<size_t>(bound.n_columns());
  const float* a = context.input(bound) + offset;
  float* y = context.output(bound) + offset;
  const bool gated = bound.op.kind == OpKind::kGate;
  const float* b = gated ? context.input(bound, 1) + offset : nullptr;
  switch (bound.op.activation) {
    case model::Activation::kSilu:
      gated ? kernels.silu_mul(a, b, y, n) : kernels.silu(a, y, n);
      break;
    case model::Activation::kGelu:
      gated ? kernels.gelu_mul(a, b, y, n) : kernels.gelu(a, y, n);
      break;
    case model::Activation::kRelu:
      gated ? kernels.relu_mul(a, b, y, n) : kernels.relu(a, y, n);
      break;
    case model::Activation::kDoubleRelu:  // max(max(a, 0) b, 0) = max(a, 0) max(b, 0)
      gated ? kernels.relu_mul(a, b, y, n) : kernels.relu(a, y, n);
      if (gated) kernels.relu(y, y, n);
      break;
  }
}

// Everything that treats each row on its own.
void run_row(const BoundOp& bound, const OpContext& context, int row) {
  const kernels::Table& kernels = context.kernels;
  const size_t in = static_cast<size_t>(row) * static_cast<size_t>(bound.input_width);
  const size_t out = static_cast<size_t>(row) * static_cast<size_t>(bound.output_width);
  const auto n = static_cast<size_t>(bound.output_width);
  // Ops that go element by element begin here in a slice.
  const size_t part = out + static_cast<size_t>(bound.first_column);
  const auto n_part = static_cast<size_t>(bound.n_columns());
  switch (bound.op.kind) {
    case OpKind::kEmbed:
      embed(bound, context, row);
      break;
    case OpKind::kRmsNorm: {
      const size_t n_heads = bound.op.n_heads > 0 ? static_cast<size_t>(bound.op.n_heads) : 1;
      const size_t length = n / n_heads;
      for (size_t i = 0; i < n; i += length) {
        kernels.rms_norm(context.input(bound) + in + i, bound.weight_vector, bound.op.eps,
                         context.output(bound) + out + i, length);
      }
      break;
    }
    case OpKind::kLayerNorm:
      kernels.layer_norm(context.input(bound) + in, bound.weight_vector, bound.bias, bound.op.eps,
                         context.output(bound) + out, n);
      break;
    case OpKind::kRope:
      rope(bound, context, row);
      break;
    case OpKind::kGate:
    case OpKind::kActivate:
      activate(bound, context, part);
      break;
    case OpKind::kAdd:
      kernels.add(context.input(bound) + part, context.input(bound, 1) + part,
                  context.output(bound) + part, n_part);
      break;
    case OpKind::kSelect: {
      const auto token = static_cast<size_t>(context.run.output_rows[static_cast<size_t>(row)]);
      std::memcpy(context.output(bound) + out, context.input(bound) + token * n, n * sizeof(float));
      break;
    }
    case OpKind::kSoftCap:
      kernels.soft_cap(context.input(bound) + part, bound.op.soft_cap, context.output(bound) + part,
                       n_part);
      break;
    case OpKind::kSigmoidGate: {
      const float share = 1.0f / (1.0f + std::exp(-context.input(bound, 1)[row]));
      kernels.scale(context.input(bound) + in, share, context.output(bound) + out, n);
      break;
    }
    case OpKind::kRoute:
      run_route(bound, context, row);
      break;
    case OpKind::kLinear:
    case OpKind::kAttention:
    case OpKind::kExpertLinear:
    case OpKind::kExpertSum:
      TROIKA_ASSERT(false);
  }
}

void store_keys_and_values(const BoundOp& bound, const OpContext& context, int worker) {
  const Run& run = context.run;
  const cache::KvShape& shape = run.kv->shape();
  const auto head_dim = static_cast<size_t>(shape.head_dim);
  const size_t kv_width = static_cast<size_t>(shape.n_kv_heads) * head_dim;
  const int layer = bound.op.layer;
  const Share share = share_of(run.n_tokens, worker, context.team.n_active());
  for (int64_t token = share.begin; token < share.end; ++token) {
    const auto index = static_cast<size_t>(token);
    const cache::Slot slot = run.slots[index];
    for (int head = bound.first_head; head < bound.last_head; ++head) {
      const size_t offset = index * kv_width + static_cast<size_t>(head) * head_dim;
      context.kernels.store_kv(shape.type, context.input(bound, 1) + offset,
                               run.kv->key_row(layer, slot, head), head_dim);
      context.kernels.store_kv(shape.type, context.input(bound, 2) + offset,
                               run.kv->value_row(layer, slot, head), head_dim);
    }
  }
}

// Takes one (token, key/value head) after the other: later tokens see more and cost more. Where
// these are few, their segments are shared too, which changes no bit.
void run_attention(const BoundOp& bound, const OpContext& context, int index, int worker) {
  store_keys_and_values(bound, context, worker);
  context.team.barrier().wait();

  const Run& run = context.run;
  if (bound.shares_keys) {
    share_items(context, index, worker, n_prompt_attention_items(bound, run),
                [&](int64_t item) { run_prompt_attention(bound, context, worker, item); });
    return;
  }
  const int n_heads = bound.n_own_heads();
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * n_heads;
  const auto args_of = [&](int64_t item) {
    return attention_of(bound, context, static_cast<size_t>(item / n_heads),
                        bound.first_head + static_cast<int>(item % n_heads));
  };
  const size_t most_segments = n_shared_segments(bound, run, context.team.size());
  if (most_segments == 0) {
    const int64_t n_tiles = n_attention_tiles(bound, run, context.team.size());
    share_items(context, index, worker, n_tiles > 0 ? n_tiles : n_items, [&](int64_t item) {
      if (n_tiles > 0) {
        run_attention_tile(bound, context, worker, item);
      } else {
        context.kernels.attention(args_of(item));
      }
    });
    return;
  }
  const size_t segment_floats =
      static_cast<size_t>(bound.output_width) / static_cast<size_t>(bound.n_kv_heads) /
      static_cast<size_t>(bound.head_dim) *
      kernels::attention_part_floats(static_cast<uint32_t>(bound.head_dim));
  const size_t item_floats = most_segments * segment_floats;
  const auto n_segments = static_cast<int64_t>(most_segments);
  share_items(context, index, worker, n_items * n_segments, [&](int64_t i) {
    const kernels::Attention args = args_of(i / n_segments);
    const auto segment = static_cast<size_t>(i % n_segments);
    if (segment >= kernels::n_attention_segments(args)) return;
    float* parts = context.attention_parts + static_cast<size_t>(i / n_segments) * item_floats;
    context.kernels.attention_segment(args, segment, parts + segment * segment_floats);
  });
  context.team.barrier().wait();
  const Share share = share_of(n_items, worker, context.team.n_active());
  for (int64_t item = share.begin; item < share.end; ++item) {
    context.kernels.attention_merge(
        args_of(item), context.attention_parts + static_cast<size_t>(item) * item_floats);
  }
}

// With the rows and lists of a set of buffers in place of the lane's own.
OpContext with_area(const OpContext& context, const ShadowArea& area) {
  OpContext with = context;
  with.prepared = area.prepared;
  with.outliers = area.outliers;
  with.outlier_counts = area.counts;
  return with;
}

// A product whose outliers are tasks of their own.
void run_divided(const BoundOp& bound, const OpContext& context, int index, int worker) {
  ShadowArea& area = bound.shadow->of(context.run.buffer_set);
  switch (bound.role) {
    case Role::kExtract:
      prepare_rows(bound, with_area(context, area), worker);
      context.team.barrier().wait();
      if (worker == 0) gather_channels(*bound.channels, context.run.n_tokens, &area);
      break;
    case Role::kProduct:
      run_linear(bound, with_area(context, area), index, worker);
      break;
    case Role::kShadow:
      run_shadow_product(bound, context, worker);
      break;
    case Role::kSum:
      run_shadow_sum(bound, context, worker);
      break;
    case Role::kRead:
    case Role::kWhole:
      TROIKA_ASSERT(false);
  }
}

// What may be under way on other workers when a worker reaches an op.
class Meetings {
 public:
  // Sets where the workers meet. Row by row, each worker goes on with what it has made itself;
  // products need all of their input, and make what others need.
  void place(BoundOp* bound) {
    if (bound->op.kind == OpKind::kLinear) {
      const bool by_rows = bound->prepares_input;  // at first: then they meet within the product
      bound->meets_before = by_rows ? needed_by_rows(*bound) : needed_by_product(*bound);
      if (by_rows || bound->meets_before) clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else if (bound->op.kind == OpKind::kExpertLinear) {
      // Its rows are those of all workers, in another order.
      bound->meets_before =
          bound->prepares_input ? by_rows_ || !products_.empty() : needed_by_product(*bound);
      if (bound->prepares_input || bound->meets_before) clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else if (bound->op.kind == OpKind::kAttention) {
      bound->meets_before = by_rows_ || !products_.empty();
      clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else {
      bound->meets_before = needed_by_rows(*bound);
      if (bound->meets_before) clear();
      by_rows_ = true;
      per_output_ = bound->per_output;
    }
  }

 private:
  struct Product {
    model::ValueId input, output;
  };

  bool needed_by_rows(const BoundOp& bound) const {
    if (!products_.empty()) return true;
    return by_rows_ && (bound.op.kind == OpKind::kSelect || bound.per_output != per_output_);
  }
  // Products side by side may not touch each other's values.
  bool needed_by_product(const BoundOp& bound) const {
    const model::ValueId input = bound.op.inputs[0], output = bound.op.output;
    return by_rows_ || std::any_of(products_.begin(), products_.end(), [&](const Product& other) {
             return other.output == output || other.output == input || other.input == output;
           });
  }
  void clear() {
    by_rows_ = false;
    products_.clear();
  }

  bool by_rows_ = false;
  bool per_output_ = false;
  std::vector<Product> products_;
};

}  // namespace

size_t n_shared_segments(const BoundOp& bound, const Run& run, int n_workers) {
  // With so many items for each worker, whole ones keep all busy.
  constexpr int64_t kEnoughItems = 4;
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * bound.n_own_heads();
  if (n_workers == 1 || n_items >= kEnoughItems * n_workers) return 0;
  size_t most_positions = 0;
  for (int token = 0; token < run.n_tokens; ++token) {
    const cache::VisibleSlots& visible = run.visible[static_cast<size_t>(token)];
    most_positions = std::max(most_positions, visible.within(bound.op.window).size());
  }
  const size_t n = (most_positions + kernels::kAttentionSegment - 1) / kernels::kAttentionSegment;
  return n > 1 ? n : 0;
}

size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers) {
  const auto head_dim = static_cast<uint32_t>(bound.head_dim);
  return n_shared_segments(bound, run, n_workers) * static_cast<size_t>(run.n_tokens) *
         (static_cast<size_t>(bound.output_width) / head_dim) *
         kernels::attention_part_floats(head_dim);
}

std::vector<BoundOp> bind_ops(const Subgraph& subgraph, const weights::Store& weights,
                              const Buffers& buffers, const kernels::Table& kernels,
                              Precision precision) {
  std::vector<BoundOp> ops;
  Meetings meetings;
  if (subgraph.role != Role::kWhole) {
    // An extraction brings one activation into its form for all products behind it.
    const size_t n_ops = subgraph.role == Role::kExtract ? 1 : subgraph.ops.size();
    for (const model::Op& op : subgraph.ops.first(n_ops)) {
      BoundOp bound = bind(op, subgraph, weights, buffers, kernels, precision);
      bound.role = subgraph.role;
      bound.shadow = buffers.shadow();
      bound.channels = weights.channels_of(op.weight);
      TROIKA_ASSERT(bound.shadow != nullptr && bound.channels != nullptr);
      TROIKA_ASSERT(bound.form == InputForm::kInt8 && bound.int8_rule.takes_outliers());
      ops.push_back(bound);
    }
    return ops;
  }
  // The value that stands prepared at hand, and in which form.
  model::ValueId prepared = model::kNone;
  InputForm form = InputForm::kFloat;
  kernels::SpreadToken* spread_token = nullptr;
  bool is_in_parts = false;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const model::Op& op = subgraph.ops[i];
    BoundOp bound = bind(op, subgraph, weights, buffers, kernels, precision);
    if (!subgraph.slice.is_all()) take_slice(subgraph, i, buffers, &bound);
    if (prepared_row_bytes(bound) > 0) {
      const bool takes_parts = op.kind == OpKind::kExpertLinear;
      bound.prepares_input = op.inputs[0] != prepared || bound.form != form ||
                             bound.spread_token != spread_token || takes_parts != is_in_parts;
      prepared = op.inputs[0];
      form = bound.form;
      spread_token = bound.spread_token;
      is_in_parts = takes_parts;
    }
    if (op.output == prepared) prepared = model::kNone;
    meetings.place(&bound);
    ops.push_back(bound);
  }
  return ops;
}

void run_op(const BoundOp& bound, const OpContext& context, int index, int worker) {
  if (bound.role != Role::kWhole) {
    run_divided(bound, context, index, worker);
  } else if (bound.op.kind == OpKind::kLinear) {
    run_linear(bound, context, index, worker);
  } else if (bound.op.kind == OpKind::kAttention) {
    run_attention(bound, context, index, worker);
  } else if (bound.op.kind == OpKind::kExpertLinear) {
    run_expert_linear(bound, context, index, worker);
  } else if (bound.op.kind == OpKind::kExpertSum) {
    run_expert_sum(bound, context, worker);
  } else {
    const Share share = share_of(n_rows_of(bound, context.run), worker, context.team.n_active());
    for (int64_t row = share.begin; row < share.end; ++row) {
      run_row(bound, context, static_cast<int>(row));
    }
  }
}

}  // namespace troika::lanes
