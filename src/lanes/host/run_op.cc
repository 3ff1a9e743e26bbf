#include "lanes/host/run_op.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lanes/host/attention/attention.h"
#include "lanes/host/experts/experts.h"
#include "lanes/host/neurons/neuron_ffn.h"
#include "lanes/host/products.h"
#include "lanes/host/shadow_products.h"
#include "tensor/codec.h"
#include "tensor/strips.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Return a row of an op's first input, and the same row of its output.
const float* input_row(const BoundOp& bound, const OpContext& context, int row) {
  return context.input(bound) + static_cast<size_t>(row) * static_cast<size_t>(bound.input_width);
}
float* output_row(const BoundOp& bound, const OpContext& context, int row) {
  return context.output(bound) + static_cast<size_t>(row) * static_cast<size_t>(bound.output_width);
}

// The elements of a row that an op computes: all of them, or those of its slice.
struct Elements {
  const float* a;
  const float* b;  // null where there is one input
  float* y;
  size_t n;
};
Elements elements_of(const BoundOp& bound, const OpContext& context, int row) {
  const size_t first = static_cast<size_t>(row) * static_cast<size_t>(bound.output_width) +
                       static_cast<size_t>(bound.first_column);
  const float* b = bound.inputs[1] != nullptr ? context.input(bound, 1) + first : nullptr;
  return {context.input(bound) + first, b, context.output(bound) + first,
          static_cast<size_t>(bound.n_columns())};
}

void embed(const BoundOp& bound, const OpContext& context, int row) {
  const weights::Matrix& matrix = bound.as<BoundEmbedding>().matrix;
  const auto token = static_cast<size_t>(context.run.tokens[static_cast<size_t>(row)]);
  const auto n = static_cast<size_t>(bound.output_width);
  float* out = output_row(bound, context, row);
  if (token < static_cast<size_t>(matrix.n_strip_rows)) {
    const size_t in_strip = token % tensor::kStripRows;
    tensor::decode_strip_row(matrix.type, matrix.data + (token - in_strip) * matrix.row_bytes,
                             in_strip, n, out);
  } else {
    tensor::dequantize_row(matrix.type, matrix.data + token * matrix.row_bytes, out, n);
  }
  if (bound.op.scale != 1.0f) context.kernels.scale(out, bound.op.scale, out, n);
}

void rms_norm(const BoundOp& bound, const OpContext& context, int row) {
  const auto n = static_cast<size_t>(bound.output_width);
  const size_t n_heads = bound.op.n_heads > 0 ? static_cast<size_t>(bound.op.n_heads) : 1;
  const size_t length = n / n_heads;
  const float* x = input_row(bound, context, row);
  float* y = output_row(bound, context, row);
  for (size_t i = 0; i < n; i += length) {
    context.kernels.rms_norm(x + i, bound.as<BoundNorm>().weight, bound.op.eps, y + i, length);
  }
}

void layer_norm(const BoundOp& bound, const OpContext& context, int row) {
  const auto& norm = bound.as<BoundNorm>();
  context.kernels.layer_norm(input_row(bound, context, row), norm.weight, norm.bias, bound.op.eps,
                             output_row(bound, context, row),
                             static_cast<size_t>(bound.output_width));
}

void rotate(const BoundOp& bound, const OpContext& context, int row) {
  const auto& rope = bound.as<BoundRope>();
  const size_t first_pair = static_cast<size_t>(row) * static_cast<size_t>(rope.n_pairs) +
                            static_cast<size_t>(rope.first_pair);
  const auto turn = rope.is_half_split ? context.kernels.rope_neox : context.kernels.rope_normal;
  turn(output_row(bound, context, row), static_cast<size_t>(bound.op.n_heads),
       static_cast<size_t>(rope.head_dim), static_cast<size_t>(rope.n_rotated),
       context.run.rope_cos + first_pair, context.run.rope_sin + first_pair);
}

void activate(const BoundOp& bound, const OpContext& context, int row) {
  const kernels::Table& kernels = context.kernels;
  const auto [a, b, y, n] = elements_of(bound, context, row);
  const bool gated = b != nullptr;
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

void add(const BoundOp& bound, const OpContext& context, int row) {
  const Elements elements = elements_of(bound, context, row);
  context.kernels.add(elements.a, elements.b, elements.y, elements.n);
}

// Adds the worker's share of a row: about what it has just made of it, so that few lines of the
// cache go from core to core.
void add_share(const BoundOp& bound, const OpContext& context, int worker) {
  if (context.n_rows(bound) == 0) return;
  const auto [a, b, y, n] = elements_of(bound, context, 0);
  const Share share =
      share_of(static_cast<int64_t>(n), worker, context.team.n_active(), Slice::kRowGranularity);
  context.kernels.add(a + share.begin, b + share.begin, y + share.begin,
                      static_cast<size_t>(share.end - share.begin));
}

void cap(const BoundOp& bound, const OpContext& context, int row) {
  const Elements elements = elements_of(bound, context, row);
  context.kernels.soft_cap(elements.a, bound.op.soft_cap, elements.y, elements.n);
}

void select(const BoundOp& bound, const OpContext& context, int row) {
  const int token = context.run.output_rows[static_cast<size_t>(row)];
  std::memcpy(output_row(bound, context, row), input_row(bound, context, token),
              static_cast<size_t>(bound.output_width) * sizeof(float));
}

void gate_by_sigmoid(const BoundOp& bound, const OpContext& context, int row) {
  const float share = 1.0f / (1.0f + std::exp(-context.input(bound, 1)[row]));
  context.kernels.scale(input_row(bound, context, row), share, output_row(bound, context, row),
                        static_cast<size_t>(bound.output_width));
}

// Returns the context with the rows and lists of a set of buffers in place of the lane's own.
OpContext with_area(const OpContext& context, const ShadowArea& area) {
  OpContext with = context;
  with.prepared = area.prepared;
  with.outliers = area.outliers;
  with.outlier_counts = area.counts;
  return with;
}

// Runs a product, or the part of a product that is a task of its own.
void run_product(const BoundOp& bound, const OpContext& context, int index, int worker) {
  if (bound.as<BoundProduct>().neurons != nullptr) {
    run_neuron_ffn(bound, context, index, worker);
    return;
  }
  const OutlierPart& part = bound.as<BoundProduct>().outliers;
  if (part.role == Role::kWhole) {
    run_linear(bound, context, index, worker);
    return;
  }
  ShadowArea& area = part.areas->of(context.run.buffer_set);
  switch (part.role) {
    case Role::kExtract:
      prepare_rows(bound, with_area(context, area), worker);
      context.team.barrier().wait();
      if (worker == 0) gather_channels(*part.channels, context.run.n_tokens, &area);
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
    case Role::kStore:
    case Role::kEstimate:
    case Role::kSelect:
    case Role::kExact:
      TROIKA_ASSERT(false);
  }
}

}  // namespace

void run_op(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const auto by_rows = [&](auto run_row) {
    const Share share = context.rows_of(bound, worker);
    for (int64_t row = share.begin; row < share.end; ++row) {
      run_row(bound, context, static_cast<int>(row));
    }
  };
  switch (bound.op.kind) {
    case OpKind::kEmbed:
      return by_rows(embed);
    case OpKind::kRmsNorm:
      return by_rows(rms_norm);
    case OpKind::kLayerNorm:
      return by_rows(layer_norm);
    case OpKind::kLinear:
      return run_product(bound, context, index, worker);
    case OpKind::kRope:
      return by_rows(rotate);
    case OpKind::kAttention:
      return run_attention(bound, context, index, worker);
    case OpKind::kGate:
    case OpKind::kActivate:
      return by_rows(activate);
    case OpKind::kAdd:
      if (context.own_values != nullptr && bound.own_places.shares_elements) {
        return add_share(bound, context, worker);
      }
      return by_rows(add);
    case OpKind::kSelect:
      return by_rows(select);
    case OpKind::kSoftCap:
      return by_rows(cap);
    case OpKind::kRoute:
      return by_rows(run_route);
    case OpKind::kExpertLinear:
      if (bound.as<BoundProduct>().neurons != nullptr) {
        return run_neuron_experts(bound, context, index, worker);
      }
      return run_expert_linear(bound, context, index, worker);
    case OpKind::kExpertSum:
      return run_expert_sum(bound, context, worker);
    case OpKind::kSigmoidGate:
      return by_rows(gate_by_sigmoid);
  }
}

}  // namespace troika::lanes
