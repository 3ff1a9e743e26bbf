#include "lanes/host/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lanes/host/prompt_attention.h"
#include "lanes/host/shadow_steps.h"
#include "tensor/codec.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Rows of a weight that stay together on one worker: a cache line of results.
constexpr int64_t kRowGranularity = 16;
// Bytes of a weight that a worker takes at a time: little enough that none waits long for the last
// one, enough that a stream of reads gets under way.
constexpr size_t kItemBytes = 32 << 10;

void bind_linear(Step* step, const weights::Store& weights, const kernels::Table& kernels,
                 Precision precision) {
  step->matrix = weights.matrix(step->op.weight);
  const bool is_int8 = precision.prefill == plan::Prefill::kInt8;
  if (is_int8 && precision.int8_rules != nullptr) {
    step->int8_rule = (*precision.int8_rules)[static_cast<size_t>(step->op.weight)];
  }
  if (is_int8 && step->int8_rule.kind == Int8Rule::Kind::kGroup) {
    step->matrix = weights.grouped(step->op.weight);
    step->matmul_q8 = kernels::find(kernels.matmul_q8, step->matrix.type);
    step->form = InputForm::kQ8;
    TROIKA_ASSERT(step->matmul_q8 != nullptr);
    return;
  }
  if (is_int8) {
    step->int8 = weights.int8_panels(step->op.weight);
    step->row_largest = weights.row_largest(step->op.weight);
    if (step->int8 == nullptr && step->row_largest != nullptr) {
      step->unpack_int8 = kernels::find(kernels.unpack_int8, step->matrix.type);
      TROIKA_ASSERT(step->unpack_int8 != nullptr);
    }
  }
  if (step->int8 != nullptr || step->unpack_int8 != nullptr) {
    step->form = InputForm::kInt8;
    return;
  }
  // A matrix that has no int8 form takes the next best.
  if (is_int8 || precision.prefill == plan::Prefill::kBf16) {
    step->form = InputForm::kBf16;
    step->unpack_bf16 = kernels::find(kernels.unpack_bf16, step->matrix.type);
    TROIKA_ASSERT(step->unpack_bf16 != nullptr);
    return;
  }
  const bool is_float = tensor::type_info(step->matrix.type).block_length == 1;
  const bool is_exact =
      precision.activations == plan::Activations::kF32 || precision.prefill == plan::Prefill::kF32;
  if (!is_exact && !is_float) {
    step->matmul_q8 = kernels::find(kernels.matmul_q8, step->matrix.type);
    step->form = InputForm::kQ8;
    TROIKA_ASSERT(step->matmul_q8 != nullptr);
  } else {
    step->matmul_f32 = kernels::find(kernels.matmul_f32, step->matrix.type);
    TROIKA_ASSERT(step->matmul_f32 != nullptr);
  }
}

void check_computable(const model::Op& op, const model::Blueprint& blueprint) {
  const bool is_of_experts = op.kind == OpKind::kRoute || op.kind == OpKind::kExpertLinear ||
                             op.kind == OpKind::kExpertSum;
  const bool is_head_norm = op.kind == OpKind::kRmsNorm && op.n_heads > 0;
  const bool is_double_relu = (op.kind == OpKind::kGate || op.kind == OpKind::kActivate) &&
                              op.activation == model::Activation::kDoubleRelu;
  if (!is_of_experts && !is_head_norm && !is_double_relu) return;
  throw Error(
      fmt::format("{}: this model has {}, which this version can plan and time on a virtual phone "
                  "('troika bench "
                  "--machine'), but not compute.",
                  blueprint.name.empty() ? blueprint.architecture : blueprint.name,
                  is_of_experts  ? "experts"
                  : is_head_norm ? "a norm for each head"
                                 : "gates with ReLU on both factors"));
}

Step bind(const model::Op& op, const Subgraph& subgraph, const weights::Store& weights,
          const Buffers& buffers, const kernels::Table& kernels, Precision precision) {
  check_computable(op, *subgraph.blueprint);
  Step step;
  step.op = op;
  step.rope = subgraph.blueprint->rope;
  step.rope.frequency_divisors.clear();
  step.head_dim = subgraph.blueprint->head_dim;
  step.n_kv_heads = subgraph.blueprint->n_kv_heads;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != model::kNone) step.inputs[i] = buffers.value(op.inputs[i]);
  }
  if (op.inputs[0] != model::kNone) step.input_width = buffers.width(op.inputs[0]);
  step.output = buffers.value(op.output);
  step.output_width = buffers.width(op.output);
  step.per_output = subgraph.blueprint->values[static_cast<size_t>(op.output)].per_output;
  if (op.kind == OpKind::kAttention && static_cast<size_t>(step.head_dim) > kernels::kMaxHeadSize) {
    throw Error(
        fmt::format("The model's attention heads have {} elements; at most {} are "
                    "supported.",
                    step.head_dim, kernels::kMaxHeadSize));
  }
  step.shares_keys = op.kind == OpKind::kAttention && (precision.prefill == plan::Prefill::kBf16 ||
                                                       precision.prefill == plan::Prefill::kInt8);
  if (op.kind == OpKind::kLinear) {
    bind_linear(&step, weights, kernels, precision);
  } else if (op.kind == OpKind::kEmbed) {
    step.matrix = weights.matrix(op.weight);
  } else if (op.weight != model::kNone) {
    step.weight_vector = weights.vector(op.weight);
  }
  if (op.bias != model::kNone) step.bias = weights.vector(op.bias);
  return step;
}

int n_rows_of(const Step& step, const Run& run) {
  return step.per_output ? run.n_outputs : run.n_tokens;
}

void embed(const Step& step, const StepContext& context, int row) {
  const auto token = static_cast<size_t>(context.run.tokens[static_cast<size_t>(row)]);
  float* out = step.output + static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n = static_cast<size_t>(step.output_width);
  tensor::dequantize_row(step.matrix.type, step.matrix.data + token * step.matrix.row_bytes, out,
                         n);
  if (step.op.scale != 1.0f) context.kernels.scale(out, step.op.scale, out, n);
}

void rope(const Step& step, const StepContext& context, int row) {
  float* x = step.output + static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n_rot = static_cast<size_t>(step.rope.n_dims);
  const size_t first_pair = static_cast<size_t>(row) * (n_rot / 2);
  const auto turn =
      step.rope.is_half_split ? context.kernels.rope_neox : context.kernels.rope_normal;
  turn(x, static_cast<size_t>(step.op.n_heads), static_cast<size_t>(step.head_dim), n_rot,
       context.run.rope_cos + first_pair, context.run.rope_sin + first_pair);
}

void activate(const Step& step, const kernels::Table& kernels, size_t offset) {
  const auto n = static_cast<size_t>(step.output_width);
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
    case model::Activation::kDoubleRelu:
      TROIKA_ASSERT(false);
  }
}

// Everything that treats each row on its own.
void run_row(const Step& step, const StepContext& context, int row) {
  const kernels::Table& kernels = context.kernels;
  const size_t in = static_cast<size_t>(row) * static_cast<size_t>(step.input_width);
  const size_t out = static_cast<size_t>(row) * static_cast<size_t>(step.output_width);
  const auto n = static_cast<size_t>(step.output_width);
  switch (step.op.kind) {
    case OpKind::kEmbed:
      embed(step, context, row);
      break;
    case OpKind::kRmsNorm:
      kernels.rms_norm(step.inputs[0] + in, step.weight_vector, step.op.eps, step.output + out, n);
      break;
    case OpKind::kLayerNorm:
      kernels.layer_norm(step.inputs[0] + in, step.weight_vector, step.bias, step.op.eps,
                         step.output + out, n);
      break;
    case OpKind::kRope:
      rope(step, context, row);
      break;
    case OpKind::kGate:
    case OpKind::kActivate:
      activate(step, kernels, out);
      break;
    case OpKind::kAdd:
      kernels.add(step.inputs[0] + out, step.inputs[1] + out, step.output + out, n);
      break;
    case OpKind::kSelect: {
      const auto token = static_cast<size_t>(context.run.output_rows[static_cast<size_t>(row)]);
      std::memcpy(step.output + out, step.inputs[0] + token * n, n * sizeof(float));
      break;
    }
    case OpKind::kLinear:
    case OpKind::kAttention:
    case OpKind::kRoute:
    case OpKind::kExpertLinear:
    case OpKind::kExpertSum:
      TROIKA_ASSERT(false);
  }
}

// One row as int8 by the step's rule; what it takes out goes to the row's list.
void prepare_int8(const Step& step, const StepContext& context, int worker, size_t row,
                  const float* x, std::byte* out) {
  const auto k = static_cast<size_t>(step.input_width);
  const Int8Rule& rule = step.int8_rule;
  float* scratch = context.scratch + static_cast<size_t>(worker) * context.scratch_floats;
  kernels::Outlier* outliers = rule.takes_outliers() ? context.outliers + row * k : nullptr;
  size_t n_outliers = 0;
  if (rule.factors != nullptr) {
    for (size_t i = 0; i < k; ++i) scratch[i] = x[i] * rule.factors[i];
    x = scratch;
  }
  if (rule.kind == Int8Rule::Kind::kSplit) {
    for (size_t i = 0; i < k; ++i) {
      const bool is_outlier = std::fabs(x[i]) >= kSplitLimit;
      if (is_outlier) outliers[n_outliers++] = {static_cast<uint32_t>(i), x[i]};
      scratch[i] = is_outlier ? 0.0f : x[i];
    }
    x = scratch;
  }
  if (rule.kind == Int8Rule::Kind::kLimit) {
    n_outliers = context.kernels.quantize_int8_within(x, rule.range, out, outliers, k);
  } else {
    context.kernels.quantize_int8(x, out, k);
  }
  if (outliers != nullptr) context.outlier_counts[row] = static_cast<uint32_t>(n_outliers);
}

// Brings the rows of the input that fall to this worker into the form that the product takes.
void prepare_rows(const Step& step, const StepContext& context, int worker) {
  const auto k = static_cast<size_t>(step.input_width);
  const size_t stride = form_bytes(step.form, k);
  const Part part = part_of(n_rows_of(step, context.run), worker, context.team.n_active());
  for (int64_t row = part.begin; row < part.end; ++row) {
    const float* x = step.inputs[0] + static_cast<size_t>(row) * k;
    std::byte* out = context.prepared + static_cast<size_t>(row) * stride;
    switch (step.form) {
      case InputForm::kQ8:
        context.kernels.quantize_activations(x, out, k);
        break;
      case InputForm::kInt8:
        prepare_int8(step, context, worker, static_cast<size_t>(row), x, out);
        break;
      case InputForm::kBf16:
        context.kernels.narrow_bf16(x, out, k);
        break;
      case InputForm::kFloat:
        TROIKA_ASSERT(false);
    }
  }
}

std::byte* stretch_of(const StepContext& context, int worker) {
  return context.stretches + static_cast<size_t>(worker) * context.stretch_bytes;
}

// Strips of int8 that a worker unpacks at a time: its buffer begins with the scales and starts of
// kMostStripsTogether strips.
constexpr size_t kBesideBytes =
    kMostStripsTogether * kernels::kPanelRows * (sizeof(float) + sizeof(int32_t));
size_t unpacked_strips(size_t k) {
  size_t n = kMostStripsTogether;
  while (n > 1 && n * kernels::int8_strip_bytes(k) > kMostUnpackedBytes) n /= 2;
  return n;
}

// Some strips of a matrix without packed copy, unpacked for this worker.
kernels::Int8Panels unpack_strips(const Step& step, const StepContext& context, int worker,
                                  size_t first_strip, size_t last_strip) {
  constexpr size_t kRowsTogether = kMostStripsTogether * kernels::kPanelRows;
  const auto k = static_cast<size_t>(step.input_width);
  const auto n_rows = static_cast<size_t>(step.matrix.n_rows);
  std::byte* const buffer = stretch_of(context, worker);
  auto* scales = reinterpret_cast<float*>(buffer);
  auto* starts = reinterpret_cast<int32_t*>(buffer + kRowsTogether * sizeof(float));
  auto* levels = reinterpret_cast<int8_t*>(buffer + kBesideBytes);
  for (size_t strip = first_strip; strip < last_strip; ++strip) {
    const size_t first_row = strip * kernels::kPanelRows, i = strip - first_strip;
    step.unpack_int8({step.matrix.data, step.matrix.row_bytes, k, first_row,
                      std::min(first_row + kernels::kPanelRows, n_rows)},
                     step.row_largest + first_row,
                     {levels + i * kernels::int8_strip_bytes(k), scales + i * kernels::kPanelRows,
                      starts + i * kernels::kPanelRows});
  }
  return {levels, scales, starts, n_rows, k, first_strip};
}

// Some strips with bfloat16: a stretch of their rows is unpacked, then multiplied with all tokens.
void multiply_bf16(const Step& step, const StepContext& context, int worker,
                   kernels::PanelProduct product) {
  const auto k = static_cast<size_t>(step.input_width);
  const auto n_rows = static_cast<size_t>(step.matrix.n_rows);
  auto* panel = reinterpret_cast<uint16_t*>(stretch_of(context, worker));
  const std::byte* x = product.x;
  for (size_t first_k = 0; first_k < k; first_k += kStretch) {
    const size_t n_k = kernels::bf16_depth(std::min(kStretch, k - first_k));
    for (size_t strip = product.first_strip; strip < product.last_strip; ++strip) {
      const size_t first_row = strip * kernels::kPanelRows;
      step.unpack_bf16({step.matrix.data, step.matrix.row_bytes, k, first_row,
                        std::min(first_row + kernels::kPanelRows, n_rows)},
                       first_k, n_k,
                       panel + (strip - product.first_strip) * kernels::kPanelRows * n_k);
    }
    product.x = x + first_k * sizeof(uint16_t);
    context.kernels.matmul_bf16({panel, n_rows, n_k, first_k == 0, first_k + kStretch >= k},
                                product);
  }
}

// Calls body(item) for each of n_items on some worker. Each worker begins with a part of its own,
// so that it reads on where it has read before, and helps the others when that is done.
template <typename Body>
void share_items(const StepContext& context, int step_index, int worker, int64_t n_items,
                 Body body) {
  const int n_workers = context.team.n_active();
  ItemCounter* counters =
      context.counters + static_cast<ptrdiff_t>(step_index) * context.team.size();
  for (int i = 0; i < n_workers; ++i) {
    const int owner = (worker + i) % n_workers;
    const Part part = part_of(n_items, owner, n_workers);
    const int64_t n_own = part.end - part.begin;
    std::atomic<int64_t>& n_begun = counters[owner].n_begun;
    // Looked at first: a finished part's counter stays where it is, in every worker's cache.
    while (n_begun.load(std::memory_order_relaxed) < n_own) {
      const int64_t item = n_begun.fetch_add(1, std::memory_order_relaxed);
      if (item < n_own) body(part.begin + item);
    }
  }
}

// What was taken out of the activations, in float (N4).
void add_outliers(const Step& step, const StepContext& context, const kernels::Int8Panels& panels,
                  const kernels::PanelProduct& product) {
  if (!step.int8_rule.takes_outliers() || step.role == Role::kProduct) return;
  context.kernels.add_outliers(panels, {product.first_strip, product.last_strip, product.n_tokens,
                                        context.outliers, static_cast<size_t>(step.input_width),
                                        context.outlier_counts, product.y, product.y_stride});
}

// Strips of rows are multiplied by whoever is free: the sums of an output never depend on it.
void run_panels(const Step& step, const StepContext& context, int step_index, int worker) {
  const auto k = static_cast<size_t>(step.input_width);
  const size_t n_strips = kernels::n_strips(static_cast<size_t>(step.matrix.n_rows));
  size_t together = step.strips_together;
  if (step.unpack_int8 != nullptr) together = std::min(together, unpacked_strips(k));
  while (together > 1 && n_strips / together < 2 * static_cast<size_t>(context.team.n_active())) {
    together /= 2;
  }
  const auto n_items = static_cast<int64_t>((n_strips + together - 1) / together);
  share_items(context, step_index, worker, n_items, [&](int64_t item) {
    kernels::PanelProduct product;
    product.first_strip = static_cast<size_t>(item) * together;
    product.last_strip = std::min(product.first_strip + together, n_strips);
    product.n_tokens = static_cast<size_t>(n_rows_of(step, context.run));
    product.x = context.prepared;
    product.x_stride_bytes = form_bytes(step.form, k);
    product.bias = step.bias;
    product.y = step.output;
    product.y_stride = static_cast<size_t>(step.output_width);
    if (step.form == InputForm::kInt8) {
      const kernels::Int8Panels panels =
          step.int8 != nullptr
              ? *step.int8
              : unpack_strips(step, context, worker, product.first_strip, product.last_strip);
      context.kernels.matmul_int8(panels, product);
      add_outliers(step, context, panels, product);
    } else {
      multiply_bf16(step, context, worker, product);
    }
  });
}

// Rows [begin, end) of the product.
void multiply_rows(const Step& step, const StepContext& context, int n_tokens, int64_t begin,
                   int64_t end) {
  const auto k = static_cast<size_t>(step.input_width);
  const kernels::MatmulWeight weight = {step.matrix.data, step.matrix.row_bytes, k,
                                        static_cast<size_t>(begin), static_cast<size_t>(end)};
  const auto y_stride = static_cast<size_t>(step.output_width);
  if (step.matmul_q8 != nullptr) {
    step.matmul_q8(weight, static_cast<size_t>(n_tokens), context.prepared,
                   kernels::q8_row_bytes(k), step.output, y_stride);
  } else {
    step.matmul_f32(weight, static_cast<size_t>(n_tokens), step.inputs[0], k, step.output,
                    y_stride);
  }
  if (step.bias == nullptr) return;
  for (int token = 0; token < n_tokens; ++token) {
    float* y = step.output + static_cast<size_t>(token) * y_stride + begin;
    context.kernels.add(y, step.bias + begin, y, static_cast<size_t>(end - begin));
  }
}

void run_linear(const Step& step, const StepContext& context, int step_index, int worker) {
  if (step.prepares_input) {
    prepare_rows(step, context, worker);
    context.team.barrier().wait();
  }
  if (worker == 0 && context.run.observer != nullptr && !step.per_output) {
    context.run.observer->observe(step.op, step.inputs[0], context.run.n_tokens, step.input_width);
  }
  if (step.form == InputForm::kInt8 || step.form == InputForm::kBf16) {
    run_panels(step, context, step_index, worker);
    return;
  }
  const int n_tokens = n_rows_of(step, context.run);
  const int64_t n_rows = step.matrix.n_rows;
  const auto fitting = static_cast<int64_t>(kItemBytes / step.matrix.row_bytes);
  const int64_t item_rows = std::max<int64_t>(1, fitting / kRowGranularity) * kRowGranularity;
  share_items(context, step_index, worker, (n_rows + item_rows - 1) / item_rows, [&](int64_t item) {
    multiply_rows(step, context, n_tokens, item * item_rows,
                  std::min((item + 1) * item_rows, n_rows));
  });
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
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      const size_t offset = index * kv_width + static_cast<size_t>(head) * head_dim;
      context.kernels.store_kv(shape.type, step.inputs[1] + offset,
                               run.kv->key_row(layer, slot, head), head_dim);
      context.kernels.store_kv(shape.type, step.inputs[2] + offset,
                               run.kv->value_row(layer, slot, head), head_dim);
    }
  }
}

// What a (token, key/value head) asks of a kernel.
kernels::Attention attention_of(const Step& step, const Run& run, size_t token, int head) {
  const cache::KvShape& shape = run.kv->shape();
  const auto head_dim = static_cast<size_t>(step.head_dim);
  const auto q_width = static_cast<size_t>(step.output_width);
  const size_t n_group = q_width / (static_cast<size_t>(shape.n_kv_heads) * head_dim);
  const size_t offset = token * q_width + static_cast<size_t>(head) * n_group * head_dim;
  kernels::Attention args;
  args.q = step.inputs[0] + offset;
  args.q_stride = head_dim;
  args.n_heads = static_cast<uint32_t>(n_group);
  args.head_size = static_cast<uint32_t>(head_dim);
  args.k = {run.kv->key_pages(step.op.layer), cache::KvCache::kPageSlotsLog2, shape.head_bytes(),
            run.kv->head_offset_bytes(head), shape.type};
  args.v = args.k;
  args.v.pages = run.kv->value_pages(step.op.layer);
  args.prefix = run.visible[token].past;
  args.own = run.visible[token].own;
  args.scale = step.op.scale;
  args.out = step.output + offset;
  args.out_stride = head_dim;
  return args;
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
  const int n_heads = run.kv->shape().n_kv_heads;
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * n_heads;
  const auto args_of = [&](int64_t item) {
    return attention_of(step, run, static_cast<size_t>(item / n_heads),
                        static_cast<int>(item % n_heads));
  };
  const size_t most_segments = n_shared_segments(run, context.team.size());
  if (most_segments == 0) {
    share_items(context, step_index, worker, n_items,
                [&](int64_t item) { context.kernels.attention(args_of(item)); });
    return;
  }
  const size_t segment_floats =
      static_cast<size_t>(step.output_width) / static_cast<size_t>(n_heads) /
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

size_t form_bytes(InputForm form, size_t k) {
  switch (form) {
    case InputForm::kFloat:
      return 0;
    case InputForm::kQ8:
      return kernels::q8_row_bytes(k);
    case InputForm::kInt8:
      return kernels::int8_token_bytes(k);
    case InputForm::kBf16:
      return kernels::bf16_token_bytes(k);
  }
  return 0;
}

size_t unpacked_bytes(const Step& step) {
  if (step.shares_keys) return prompt_attention_bytes(step);
  if (step.unpack_bf16 != nullptr) return kStretchBytes;
  if (step.unpack_int8 == nullptr) return 0;
  const auto k = static_cast<size_t>(step.input_width);
  return kBesideBytes + unpacked_strips(k) * kernels::int8_strip_bytes(k);
}

size_t n_shared_segments(const Run& run, int n_workers) {
  // With so many items for each worker, whole ones keep all busy.
  constexpr int64_t kEnoughItems = 4;
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * run.kv->shape().n_kv_heads;
  if (n_workers == 1 || n_items >= kEnoughItems * n_workers) return 0;
  size_t most_positions = 0;
  for (int token = 0; token < run.n_tokens; ++token) {
    const cache::VisibleSlots& visible = run.visible[static_cast<size_t>(token)];
    most_positions = std::max(most_positions, visible.past.size() + visible.own.size());
  }
  const size_t n = (most_positions + kernels::kAttentionSegment - 1) / kernels::kAttentionSegment;
  return n > 1 ? n : 0;
}

size_t attention_parts_floats(const Step& step, const Run& run, int n_workers) {
  const auto head_dim = static_cast<uint32_t>(step.head_dim);
  return n_shared_segments(run, n_workers) * static_cast<size_t>(run.n_tokens) *
         (static_cast<size_t>(step.output_width) / head_dim) *
         kernels::attention_part_floats(head_dim);
}

std::vector<Step> make_steps(const Subgraph& subgraph, const weights::Store& weights,
                             const Buffers& buffers, const kernels::Table& kernels,
                             Precision precision) {
  std::vector<Step> steps;
  Meetings meetings;
  if (subgraph.role != Role::kWhole) {
    // Of one activation, which an extraction before brings into its form for all of them.
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
  for (const model::Op& op : subgraph.ops) {
    Step step = bind(op, subgraph, weights, buffers, kernels, precision);
    if (step.form != InputForm::kFloat) {
      step.prepares_input = op.inputs[0] != prepared || step.form != form;
      prepared = op.inputs[0];
      form = step.form;
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

void run_step(const Step& step, const StepContext& context, int step_index, int worker) {
  if (step.role != Role::kWhole) {
    run_divided(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kLinear) {
    run_linear(step, context, step_index, worker);
  } else if (step.op.kind == OpKind::kAttention) {
    run_attention(step, context, step_index, worker);
  } else {
    const Part part = part_of(n_rows_of(step, context.run), worker, context.team.n_active());
    for (int64_t row = part.begin; row < part.end; ++row) {
      run_row(step, context, static_cast<int>(row));
    }
  }
}

}  // namespace troika::lanes
