#include "lanes/host/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lanes/host/attention_args.h"
#include "lanes/host/attention_tiles.h"
#include "lanes/host/expert_steps.h"
#include "lanes/host/product_steps.h"
#include "lanes/host/prompt_attention.h"
#include "lanes/host/shadow_steps.h"
#include "model/rope.h"
#include "tensor/codec.h"
#include "tensor/strips.h"

namespace troika::lanes {
namespace {

using model::OpKind;

Step bind(const model::Op& op, const Subgraph& subgraph, const weights::Store& weights,
          const Buffers& buffers, const kernels::Table& kernels, Precision precision) {
  Step step;
  step.op = op;
  const model::Blueprint& blueprint = *subgraph.blueprint;
  if (op.kind == OpKind::kRope) {
    const model::Rope& rope = blueprint.ropes[static_cast<size_t>(op.rope)];
    step.n_rotated = rope.n_dims;
    step.is_half_split = rope.is_half_split;
    step.first_pair = model::first_pair_of(blueprint.ropes, op.rope);
    step.n_pairs = model::first_pair_of(blueprint.ropes, static_cast<int>(blueprint.ropes.size()));
  }
  step.head_dim = blueprint.head_dim;
  step.n_kv_heads = blueprint.n_kv_heads;
  if (is_of_experts(op)) {
    step.n_experts = blueprint.n_experts;
    step.n_experts_used = blueprint.n_experts_used;
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != model::kNone) step.inputs[i] = buffers.view(op.inputs[i]).floats();
  }
  if (op.inputs[0] != model::kNone) step.input_width = buffers.width(op.inputs[0]);
  step.output = buffers.view(op.output).floats();
  step.output_width = buffers.width(op.output);
  if (op.kind == OpKind::kExpertLinear) {
    step.output_width /= step.n_experts_used;
    if (op.takes_parts) step.input_width /= step.n_experts_used;
  }
  step.last_column = step.output_width;
  step.last_head = step.n_kv_heads;
  step.per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
  if (op.kind == OpKind::kAttention && static_cast<size_t>(step.head_dim) > kernels::kMaxHeadSize) {
    throw Error(
        fmt::format("The model's attention heads have {} elements; at most {} are "
                    "supported.",
                    step.head_dim, kernels::kMaxHeadSize));
  }
  step.shares_keys = op.kind == OpKind::kAttention && plan::shares_keys(precision.prefill);
  if (op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear) {
    bind_product(&step, weights, kernels, precision);
  } else if (op.kind == OpKind::kEmbed) {
    step.matrix = weights.matrix(op.weight);
  } else if (op.weight != model::kNone) {
    step.weight_vector = weights.vector(op.weight);
  }
  if (op.bias != model::kNone) step.bias = weights.vector(op.bias);
  return step;
}

// The rows that a selection reads are those of the whole batch.
void take_tokens(const Subgraph& subgraph, const Buffers& buffers, Step* step) {
  const auto first = static_cast<size_t>(subgraph.slice.tokens.begin);
  const model::Op& op = step->op;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == model::kNone || op.kind == OpKind::kSelect) continue;
    step->inputs[i] += first * static_cast<size_t>(buffers.width(op.inputs[i]));
  }
  step->output += first * static_cast<size_t>(buffers.width(op.output));
}

void take_slice(const Subgraph& subgraph, size_t index, const Buffers& buffers, Step* step) {
  const Slice& slice = subgraph.slice;
  const Range columns = slice.columns_of(index).within(step->output_width);
  const Range heads = slice.heads.within(step->n_kv_heads);
  step->first_column = columns.begin;
  step->last_column = columns.end;
  step->first_head = heads.begin;
  step->last_head = heads.end;
  if (slice.tokens.begin > 0) take_tokens(subgraph, buffers, step);
}

void embed(const Step& step, const StepContext& context, int row) {
  const auto token = static_cast<size_t>(context.run.tokens[static_cast<size_t>(row)]);
  float* out = step.output + static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n = static_cast<size_t>(step.output_width);
  const std::byte* const rows = step.matrix.data;
  if (token < static_cast<size_t>(step.matrix.n_strip_rows)) {
    const size_t in_strip = token % tensor::kStripRows;
    tensor::decode_strip_row(step.matrix.type, rows + (token - in_strip) * step.matrix.row_bytes,
                             in_strip, n, out);
  } else {
    tensor::dequantize_row(step.matrix.type, rows + token * step.matrix.row_bytes, out, n);
  }
  if (step.op.scale != 1.0f) context.kernels.scale(out, step.op.scale, out, n);
}

void rope(const Step& step, const StepContext& context, int row) {
  float* x = step.output + static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n_rot = static_cast<size_t>(step.n_rotated);
  const size_t first_pair = static_cast<size_t>(row) * static_cast<size_t>(step.n_pairs) +
                            static_cast<size_t>(step.first_pair);
  const auto turn = step.is_half_split ? context.kernels.rope_neox : context.kernels.rope_normal;
  turn(x, static_cast<size_t>(step.op.n_heads), static_cast<size_t>(step.head_dim), n_rot,
       context.run.rope_cos + first_pair, context.run.rope_sin + first_pair);
}

void activate(const Step& step, const kernels::Table& kernels, size_t offset) {
  const auto n = static_cast<size_t>(step.n_columns());
  const float* a = step.inputs[0] + offset;
  float* y = step.output + offset;
  const bool gated = step.op.kind == OpKind::kGate;
  const float* b = gated ? step.inputs[1] + offset : nullptr;
  switch (step.op.activation) {
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
void run_row(const Step& step, const StepContext& context, int row) {
  const kernels::Table& kernels = context.kernels;
  const size_t in = static_cast<size_t>(row) * static_cast<size_t>(step.input_width);
  const size_t out = static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n = static_cast<size_t>(step.output_width);
  // Ops that go element by element begin here in a slice.
  const size_t part = out + static_cast<size_t>(step.first_column);
  const auto n_part = static_cast<size_t>(step.n_columns());
  switch (step.op.kind) {
    case OpKind::kEmbed:
      embed(step, context, row);
      break;
    case OpKind::kRmsNorm: {
      const size_t n_heads = step.op.n_heads > 0 ? static_cast<size_t>(step.op.n_heads) : 1;
      const size_t length = n / n_heads;
      for (size_t i = 0; i < n; i += length) {
        kernels.rms_norm(step.inputs[0] + in + i, step.weight_vector, step.op.eps,
                         step.output + out + i, length);
      }
      break;
    }
    case OpKind::kLayerNorm:
      kernels.layer_norm(step.inputs[0] + in, step.weight_vector, step.bias, step.op.eps,
                         step.output + out, n);
      break;
    case OpKind::kRope:
      rope(step, context, row);
      break;
    case OpKind::kGate:
    case OpKind::kActivate:
      activate(step, kernels, part);
      break;
    case OpKind::kAdd:
      kernels.add(step.inputs[0] + part, step.inputs[1] + part, step.output + part, n_part);
      break;
    case OpKind::kSelect: {
      const auto token = static_cast<size_t>(context.run.output_rows[static_cast<size_t>(row)]);
      std::memcpy(step.output + out, step.inputs[0] + token * n, n * sizeof(float));
      break;
    }
    case OpKind::kSoftCap:
      kernels.soft_cap(step.inputs[0] + part, step.op.soft_cap, step.output + part, n_part);
      break;
    case OpKind::kSigmoidGate: {
      const float share = 1.0f / (1.0f + std::exp(-step.inputs[1][row]));
      kernels.scale(step.inputs[0] + in, share, step.output + out, n);
      break;
    }
    case OpKind::kRoute:
      run_route(step, context, row);
      break;
    case OpKind::kLinear:
    case OpKind::kAttention:
    case OpKind::kExpertLinear:
    case OpKind::kExpertSum:
      TROIKA_ASSERT(false);
  }
}

void store_keys_and_values(const Step& step, const StepContext& context, int worker) {
  const Run& run = context.run;
  const cache::KvShape& shape = run.kv->shape();
  const auto head_dim = static_cast<size_t>(shape.head_dim);
  const size_t kv_width = static_cast<size_t>(shape.n_kv_heads) * head_dim;
  const int layer = step.op.layer;
  const Part part = part_of(run.n_tokens, worker, context.team.n_active());
  for (int64_t token = part.begin; token < part.end; ++token) {
    const auto index = static_cast<size_t>(token);
    const cache::Slot slot = run.slots[index];
    for (int head = step.first_head; head < step.last_head; ++head) {
      const size_t offset = index * kv_width + static_cast<size_t>(head) * head_dim;
      context.kernels.store_kv(shape.type, step.inputs[1] + offset,
                               run.kv->key_row(layer, slot, head), head_dim);
      context.kernels.store_kv(shape.type, step.inputs[2] + offset,
                               run.kv->value_row(layer, slot, head), head_dim);
    }
  }
}

// Takes one (token, key/value head) after the other: later tokens see more and cost more. Where
// these are few, their segments are shared too, which changes no bit.
void run_attention(const Step& step, const StepContext& context, int step_index, int worker) {
  store_keys_and_values(step, context, worker);
  context.team.barrier().wait();

  const Run& run = context.run;
  if (step.shares_keys) {
    share_items(context, step_index, worker, n_prompt_attention_items(step, run),
                [&](int64_t item) { run_prompt_attention(step, context, worker, item); });
    return;
  }
  const int n_heads = step.n_own_heads();
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * n_heads;
  const auto args_of = [&](int64_t item) {
    return attention_of(step, run, static_cast<size_t>(item / n_heads),
                        step.first_head + static_cast<int>(item % n_heads));
  };
  const size_t most_segments = n_shared_segments(step, run, context.team.size());
  if (most_segments == 0) {
    const int64_t n_tiles = n_attention_tiles(step, run, context.team.size());
    share_items(context, step_index, worker, n_tiles > 0 ? n_tiles : n_items, [&](int64_t item) {
      if (n_tiles > 0) {
        run_attention_tile(step, context, worker, item);
      } else {
        context.kernels.attention(args_of(item));
      }
    });
    return;
  }
  const size_t segment_floats =
      static_cast<size_t>(step.output_width) / static_cast<size_t>(step.n_kv_heads) /
      static_cast<size_t>(step.head_dim) *
      kernels::attention_part_floats(static_cast<uint32_t>(step.head_dim));
  const size_t item_floats = most_segments * segment_floats;
  const auto n_segments = static_cast<int64_t>(most_segments);
  share_items(context, step_index, worker, n_items * n_segments, [&](int64_t i) {
    const kernels::Attention args = args_of(i / n_segments);
    const auto segment = static_cast<size_t>(i % n_segments);
    if (segment >= kernels::n_attention_segments(args)) return;
    float* parts = context.attention_parts + static_cast<size_t>(i / n_segments) * item_floats;
    context.kernels.attention_segment(args, segment, parts + segment * segment_floats);
  });
  context.team.barrier().wait();
  const Part part = part_of(n_items, worker, context.team.n_active());
  for (int64_t item = part.begin; item < part.end; ++item) {
    context.kernels.attention_merge(
        args_of(item), context.attention_parts + static_cast<size_t>(item) * item_floats);
  }
}

// With the rows and lists of a set of buffers in place of the lane's own.
StepContext with_area(const StepContext& context, const ShadowArea& area) {
  StepContext with = context;
  with.prepared = area.prepared;
  with.outliers = area.outliers;
  with.outlier_counts = area.counts;
  return with;
}

// A step of a product whose outliers are tasks of their own.
void run_divided(const Step& step, const StepContext& context, int step_index, int worker) {
  ShadowArea& area = step.shadow->of(context.run.buffer_set);
  switch (step.role) {
    case Role::kExtract:
      prepare_rows(step, with_area(context, area), worker);
      context.team.barrier().wait();
      if (worker == 0) gather_channels(*step.channels, context.run.n_tokens, &area);
      break;
    case Role::kProduct:
      run_linear(step, with_area(context, area), step_index, worker);
      break;
    case Role::kShadow:
      run_shadow_product(step, context, worker);
      break;
    case Role::kSum:
      run_shadow_sum(step, context, worker);
      break;
    case Role::kRead:
    case Role::kWhole:
      TROIKA_ASSERT(false);
  }
}

// What may be under way on other workers when a worker reaches a step.
class Meetings {
 public:
  // Sets where the workers meet. Row by row, each worker goes on with what it has made itself;
  // products need all of their input, and make what others need.
  void place(Step* step) {
    if (step->op.kind == OpKind::kLinear) {
      const bool by_rows = step->prepares_input;  // at first: then they meet within the step
      step->meets_before = by_rows ? needed_by_rows(*step) : needed_by_product(*step);
      if (by_rows || step->meets_before) clear();
      products_.push_back({step->op.inputs[0], step->op.output});
    } else if (step->op.kind == OpKind::kExpertLinear) {
      // Its rows are those of all workers, in another order.
      step->meets_before =
          step->prepares_input ? by_rows_ || !products_.empty() : needed_by_product(*step);
      if (step->prepares_input || step->meets_before) clear();
      products_.push_back({step->op.inputs[0], step->op.output});
    } else if (step->op.kind == OpKind::kAttention) {
      step->meets_before = by_rows_ || !products_.empty();
      clear();
      products_.push_back({step->op.inputs[0], step->op.output});
    } else {
      step->meets_before = needed_by_rows(*step);
      if (step->meets_before) clear();
      by_rows_ = true;
      per_output_ = step->per_output;
    }
  }

 private:
  struct Product {
    model::ValueId input, output;
  };

  bool needed_by_rows(const Step& step) const {
    if (!products_.empty()) return true;
    return by_rows_ && (step.op.kind == OpKind::kSelect || step.per_output != per_output_);
  }
  // Products side by side may not touch each other's values.
  bool needed_by_product(const Step& step) const {
    const model::ValueId input = step.op.inputs[0], output = step.op.output;
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

size_t n_shared_segments(const Step& step, const Run& run, int n_workers) {
  // With so many items for each worker, whole ones keep all busy.
  constexpr int64_t kEnoughItems = 4;
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * step.n_own_heads();
  if (n_workers == 1 || n_items >= kEnoughItems * n_workers) return 0;
  size_t most_positions = 0;
  for (int token = 0; token < run.n_tokens; ++token) {
    const cache::VisibleSlots& visible = run.visible[static_cast<size_t>(token)];
    most_positions = std::max(most_positions, visible.within(step.op.window).size());
  }
  const size_t n = (most_positions + kernels::kAttentionSegment - 1) / kernels::kAttentionSegment;
  return n > 1 ? n : 0;
}

size_t attention_parts_floats(const Step& step, const Run& run, int n_workers) {
  const auto head_dim = static_cast<uint32_t>(step.head_dim);
  return n_shared_segments(step, run, n_workers) * static_cast<size_t>(run.n_tokens) *
         (static_cast<size_t>(step.output_width) / head_dim) *
         kernels::attention_part_floats(head_dim);
}

std::vector<Step> make_steps(const Subgraph& subgraph, const weights::Store& weights,
                             const Buffers& buffers, const kernels::Table& kernels,
                             Precision precision) {
  std::vector<Step> steps;
  Meetings meetings;
  if (subgraph.role != Role::kWhole) {
    // An extraction brings one activation into its form for all products behind it.
    const size_t n_ops = subgraph.role == Role::kExtract ? 1 : subgraph.ops.size();
    for (const model::Op& op : subgraph.ops.first(n_ops)) {
      Step step = bind(op, subgraph, weights, buffers, kernels, precision);
      step.role = subgraph.role;
      step.shadow = buffers.shadow();
      step.channels = weights.channels_of(op.weight);
      TROIKA_ASSERT(step.shadow != nullptr && step.channels != nullptr);
      TROIKA_ASSERT(step.form == InputForm::kInt8 && step.int8_rule.takes_outliers());
      steps.push_back(std::move(step));
    }
    return steps;
  }
  // The value that stands prepared at hand, and in which form.
  model::ValueId prepared = model::kNone;
  InputForm form = InputForm::kFloat;
  bool is_in_parts = false;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const model::Op& op = subgraph.ops[i];
    Step step = bind(op, subgraph, weights, buffers, kernels, precision);
    if (!subgraph.slice.is_all()) take_slice(subgraph, i, buffers, &step);
    if (prepared_row_bytes(step) > 0) {
      const bool takes_parts = op.kind == OpKind::kExpertLinear;
      step.prepares_input =
          op.inputs[0] != prepared || step.form != form || takes_parts != is_in_parts;
      prepared = op.inputs[0];
      form = step.form;
      is_in_parts = takes_parts;
    }
    if (op.output == prepared) prepared = model::kNone;
    meetings.place(&step);
    steps.push_back(std::move(step));
  }
  return steps;
}

Step Step::behind(size_t n_floats) const {
  Step moved = *this;
  for (const float*& input : moved.inputs) {
    if (input != nullptr) input += n_floats;
  }
  moved.output += n_floats;
  return moved;
}

Step Step::with(const weights::Lease& lease) const {
  Step step = *this;
  step.matrix.data = lease.rows();
  if (form == InputForm::kInt8 && lease.panels() != nullptr) {
    step.int8 = lease.panels();
    step.unpack_int8 = nullptr;
  }
  // Panels are rounded: only what is computed in their numerics class may read them.
  TROIKA_ASSERT(step.int8 != nullptr || step.matrix.data != nullptr);
  return step;
}

void run_step(const Step& step, const StepContext& context, int step_index, int worker) {
  if (step.role != Role::kWhole) {
    run_divided(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kLinear) {
    run_linear(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kAttention) {
    run_attention(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kExpertLinear) {
    run_expert_linear(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kExpertSum) {
    run_expert_sum(step, context, worker);
  } else {
    const Part part = part_of(n_rows_of(step, context.run), worker, context.team.n_active());
    for (int64_t row = part.begin; row < part.end; ++row) {
      run_row(step, context, static_cast<int>(row));
    }
  }
}

}  // namespace troika::lanes
