#include "lanes/host/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/codec.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Rows of a weight that stay together on one worker: a cache line of results.
constexpr int64_t kRowGranularity = 16;

void bind_linear(Step* step, const weights::Store& weights, const kernels::Table& kernels,
                 Precision precision) {
  step->matrix = weights.matrix(step->op.weight);
  if (precision.prefill == plan::Prefill::kInt8) step->int8 = weights.int8_panels(step->op.weight);
  if (step->int8 != nullptr) {
    step->form = InputForm::kInt8;
    return;
  }
  // A matrix that has no int8 form takes the next best.
  if (precision.prefill == plan::Prefill::kInt8 || precision.prefill == plan::Prefill::kBf16) {
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

Step bind(const model::Op& op, const Subgraph& subgraph, const weights::Store& weights,
          const Buffers& buffers, const kernels::Table& kernels, Precision precision) {
  Step step;
  step.op = op;
  step.rope = subgraph.blueprint->rope;
  step.rope.frequency_divisors.clear();
  step.head_dim = subgraph.blueprint->head_dim;
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
      TROIKA_ASSERT(false);
  }
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
        context.kernels.quantize_int8(x, out, k);
        break;
      case InputForm::kBf16:
        context.kernels.narrow_bf16(x, out, k);
        break;
      case InputForm::kFloat:
        TROIKA_ASSERT(false);
    }
  }
}

// Some strips with bfloat16: a stretch of their rows is unpacked, then multiplied with all tokens.
void multiply_bf16(const Step& step, const StepContext& context, int worker,
                   kernels::PanelProduct product) {
  const auto k = static_cast<size_t>(step.input_width);
  const auto n_rows = static_cast<size_t>(step.matrix.n_rows);
  auto* panel =
      reinterpret_cast<uint16_t*>(context.stretches + static_cast<size_t>(worker) * kStretchBytes);
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

// Strips of rows go to whoever is free: the sums of an output never depend on it.
void run_panels(const Step& step, const StepContext& context, int step_index, int worker) {
  const auto k = static_cast<size_t>(step.input_width);
  const size_t n_strips = kernels::n_strips(static_cast<size_t>(step.matrix.n_rows));
  size_t together = kStripsTogether;
  while (together > 1 && n_strips / together < 2 * static_cast<size_t>(context.team.n_active())) {
    together /= 2;
  }
  kernels::PanelProduct product;
  product.n_tokens = static_cast<size_t>(n_rows_of(step, context.run));
  product.x = context.prepared;
  product.x_stride_bytes = form_bytes(step.form, k);
  product.bias = step.bias;
  product.y = step.output;
  product.y_stride = static_cast<size_t>(step.output_width);
  std::atomic<int64_t>& next = context.next_item[step_index];
  while (true) {
    product.first_strip = static_cast<size_t>(next.fetch_add(1)) * together;
    if (product.first_strip >= n_strips) return;
    product.last_strip = std::min(product.first_strip + together, n_strips);
    if (step.int8 != nullptr) {
      context.kernels.matmul_int8(*step.int8, product);
    } else {
      multiply_bf16(step, context, worker, product);
    }
  }
}

// Each worker takes a part of the rows of the weight, as they stand in the file.
void run_rows(const Step& step, const StepContext& context, int worker) {
  const int n_rows = n_rows_of(step, context.run);
  const auto k = static_cast<size_t>(step.input_width);
  const Part part = part_of(step.matrix.n_rows, worker, context.team.n_active(), kRowGranularity);
  const kernels::MatmulWeight weight = {step.matrix.data, step.matrix.row_bytes, k,
                                        static_cast<size_t>(part.begin),
                                        static_cast<size_t>(part.end)};
  const auto y_stride = static_cast<size_t>(step.output_width);
  if (step.matmul_q8 != nullptr) {
    step.matmul_q8(weight, static_cast<size_t>(n_rows), context.prepared, form_bytes(step.form, k),
                   step.output, y_stride);
  } else {
    step.matmul_f32(weight, static_cast<size_t>(n_rows), step.inputs[0], k, step.output, y_stride);
  }
  if (step.bias == nullptr || part.begin == part.end) return;
  const auto n = static_cast<size_t>(part.end - part.begin);
  for (int row = 0; row < n_rows; ++row) {
    float* y = step.output + static_cast<size_t>(row) * y_stride + part.begin;
    context.kernels.add(y, step.bias + part.begin, y, n);
  }
}

void run_linear(const Step& step, const StepContext& context, int step_index, int worker) {
  if (step.prepares_input) {
    prepare_rows(step, context, worker);
    context.team.barrier().wait();
  }
  if (step.form == InputForm::kInt8 || step.form == InputForm::kBf16) {
    run_panels(step, context, step_index, worker);
  } else {
    run_rows(step, context, worker);
  }
}

// Takes one (token, key/value head) after the other: later tokens see more and cost more.
void run_attention(const Step& step, const StepContext& context, int step_index, int worker) {
  const Run& run = context.run;
  const cache::KvShape& shape = run.kv->shape();
  const auto kv_width = static_cast<size_t>(shape.n_kv_heads) * static_cast<size_t>(shape.head_dim);
  const Part part = part_of(run.n_tokens, worker, context.team.n_active());
  for (int64_t token = part.begin; token < part.end; ++token) {
    const auto index = static_cast<size_t>(token);
    const cache::Slot slot = run.slots[index];
    const int layer = step.op.layer;
    context.kernels.store_kv(shape.type, step.inputs[1] + index * kv_width,
                             run.kv->key_row(layer, slot), kv_width);
    context.kernels.store_kv(shape.type, step.inputs[2] + index * kv_width,
                             run.kv->value_row(layer, slot), kv_width);
  }
  context.team.barrier().wait();

  const auto q_width = static_cast<size_t>(step.output_width);
  const auto head_dim = static_cast<size_t>(step.head_dim);
  const size_t n_group = q_width / kv_width;
  const int64_t n_items = static_cast<int64_t>(run.n_tokens) * shape.n_kv_heads;
  std::atomic<int64_t>& next = context.next_item[step_index];
  for (int64_t item = next.fetch_add(1); item < n_items; item = next.fetch_add(1)) {
    const auto token = static_cast<size_t>(item / shape.n_kv_heads);
    const auto head = static_cast<size_t>(item % shape.n_kv_heads);
    const size_t offset = token * q_width + head * n_group * head_dim;
    kernels::Attention args;
    args.q = step.inputs[0] + offset;
    args.q_stride = head_dim;
    args.n_heads = static_cast<uint32_t>(n_group);
    args.head_size = static_cast<uint32_t>(head_dim);
    args.k = {run.kv->key_pages(step.op.layer), cache::KvCache::kPageSlotsLog2, shape.slot_bytes(),
              head * shape.head_bytes(), shape.type};
    args.v = args.k;
    args.v.pages = run.kv->value_pages(step.op.layer);
    args.prefix = run.visible[token].past;
    args.own = run.visible[token].own;
    args.scale = step.op.scale;
    args.out = step.output + offset;
    args.out_stride = head_dim;
    context.kernels.attention(args);
  }
}

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

std::vector<Step> make_steps(const Subgraph& subgraph, const weights::Store& weights,
                             const Buffers& buffers, const kernels::Table& kernels,
                             Precision precision) {
  std::vector<Step> steps;
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
    steps.push_back(std::move(step));
  }
  return steps;
}

void run_step(const Step& step, const StepContext& context, int step_index, int worker) {
  if (step.op.kind == OpKind::kLinear) {
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
