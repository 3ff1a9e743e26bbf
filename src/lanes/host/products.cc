#include "lanes/host/products.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "lanes/host/attention_tiles.h"
#include "lanes/host/prompt_attention.h"

namespace troika::lanes {
namespace {

// Rows of a weight that stay together on one worker.
constexpr int64_t kRowGranularity = Slice::kRowGranularity;
// Bytes of a weight that a worker takes at a time: little enough that none waits long for the last
// one, enough that a stream of reads gets under way.
constexpr size_t kItemBytes = 32 << 10;
// The same for several tokens, which kernels bring into another form for each item; but every
// worker has so many items, as far as there are rows.
constexpr size_t kSeveralTokens = 5;
constexpr size_t kLargeItemBytes = 512 << 10;
constexpr int64_t kLeastItems = 4;

// One row as int8 by the rule of its product; what it takes out goes to the row's list.
void prepare_int8(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                  const float* x, std::byte* out) {
  const auto k = static_cast<size_t>(bound.input_width);
  const Int8Rule& rule = bound.int8_rule;
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

std::byte* stretch_of(const OpContext& context, int worker) {
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

// Rows [first, last) of a product's weight.
kernels::MatmulWeight rows_of(const Multiplication& product, size_t first, size_t last) {
  const weights::Matrix& matrix = product.weight.matrix;
  return {matrix.data,
          matrix.row_bytes,
          static_cast<size_t>(product.bound.input_width),
          first,
          std::min(last, static_cast<size_t>(matrix.n_rows)),
          static_cast<size_t>(matrix.n_strip_rows)};
}

// Some strips of a matrix without packed copy, unpacked for this worker.
kernels::Int8Panels unpack_strips(const Multiplication& product, size_t first_strip,
                                  size_t last_strip) {
  constexpr size_t kRowsTogether = kMostStripsTogether * kernels::kPanelRows;
  const auto k = static_cast<size_t>(product.bound.input_width);
  const auto n_rows = static_cast<size_t>(product.weight.matrix.n_rows);
  std::byte* const buffer = stretch_of(product.context, product.worker);
  auto* scales = reinterpret_cast<float*>(buffer);
  auto* starts = reinterpret_cast<int32_t*>(buffer + kRowsTogether * sizeof(float));
  auto* levels = reinterpret_cast<int8_t*>(buffer + kBesideBytes);
  for (size_t strip = first_strip; strip < last_strip; ++strip) {
    const size_t first_row = strip * kernels::kPanelRows, i = strip - first_strip;
    product.bound.unpack_int8(rows_of(product, first_row, first_row + kernels::kPanelRows),
                              product.weight.row_largest + first_row,
                              {levels + i * kernels::int8_strip_bytes(k),
                               scales + i * kernels::kPanelRows, starts + i * kernels::kPanelRows});
  }
  return {levels, scales, starts, n_rows, k, first_strip};
}

// Some strips with bfloat16: a stretch of their rows is unpacked, then multiplied with all tokens.
void multiply_bf16(const Multiplication& product, kernels::PanelProduct strips) {
  const auto k = static_cast<size_t>(product.bound.input_width);
  const auto n_rows = static_cast<size_t>(product.weight.matrix.n_rows);
  auto* panel = reinterpret_cast<uint16_t*>(stretch_of(product.context, product.worker));
  const std::byte* x = strips.x;
  for (size_t first_k = 0; first_k < k; first_k += kStretch) {
    const size_t n_k = kernels::bf16_depth(std::min(kStretch, k - first_k));
    for (size_t strip = strips.first_strip; strip < strips.last_strip; ++strip) {
      const size_t first_row = strip * kernels::kPanelRows;
      product.bound.unpack_bf16(rows_of(product, first_row, first_row + kernels::kPanelRows),
                                first_k, n_k,
                                panel + (strip - strips.first_strip) * kernels::kPanelRows * n_k);
    }
    strips.x = x + first_k * sizeof(uint16_t);
    product.context.kernels.matmul_bf16({panel, n_rows, n_k, first_k == 0, first_k + kStretch >= k},
                                        strips);
  }
}

// What was taken out of the activations, in float (N4).
void add_outliers(const Multiplication& product, const kernels::Int8Panels& panels,
                  const kernels::PanelProduct& strips) {
  const BoundOp& bound = product.bound;
  const OpContext& context = product.context;
  if (!bound.int8_rule.takes_outliers() || bound.role == Role::kProduct) return;
  context.kernels.add_outliers(panels, {strips.first_strip, strips.last_strip, strips.n_tokens,
                                        context.outliers, static_cast<size_t>(bound.input_width),
                                        context.outlier_counts, strips.y, strips.y_stride});
}

// Some strips of rows with all tokens: the sums of an output never depend on who takes which.
void multiply_strips(const Multiplication& product, size_t first_strip, size_t last_strip) {
  const BoundOp& bound = product.bound;
  kernels::PanelProduct strips;
  strips.first_strip = first_strip;
  strips.last_strip = last_strip;
  strips.n_tokens = product.n_rows;
  strips.x = product.prepared;
  strips.x_stride_bytes = form_bytes(bound.form, static_cast<size_t>(bound.input_width));
  strips.bias = bound.bias;
  strips.y = product.output;
  strips.y_stride = static_cast<size_t>(bound.output_width);
  if (bound.form == InputForm::kBf16) {
    multiply_bf16(product, strips);
    return;
  }
  const kernels::Int8Panels panels = product.weight.panels != nullptr
                                         ? *product.weight.panels
                                         : unpack_strips(product, first_strip, last_strip);
  product.context.kernels.matmul_int8(panels, strips);
  add_outliers(product, panels, strips);
}

// Whether the input stands there as blocks.
bool takes_blocks(const BoundOp& bound, size_t n_rows) {
  return bound.form == InputForm::kSpread && n_rows >= kSeveralTokens;
}

// Rows [begin, end) of the product.
void multiply_rows(const Multiplication& product, int64_t begin, int64_t end) {
  const BoundOp& bound = product.bound;
  const auto k = static_cast<size_t>(bound.input_width);
  const kernels::MatmulWeight weight =
      rows_of(product, static_cast<size_t>(begin), static_cast<size_t>(end));
  const auto y_stride = static_cast<size_t>(bound.output_width);
  if (takes_blocks(bound, product.n_rows)) {
    bound.matmul_spread(weight, product.n_rows,
                        reinterpret_cast<const kernels::TokenBlock*>(product.prepared),
                        product.output, y_stride);
  } else if (bound.matmul_q8 != nullptr) {
    bound.matmul_q8(weight, product.n_rows, product.prepared, kernels::q8_row_bytes(k),
                    product.output, y_stride);
  } else {
    bound.matmul_f32(weight, product.n_rows, product.floats, k, product.output, y_stride);
  }
  if (bound.bias == nullptr) return;
  for (size_t row = 0; row < product.n_rows; ++row) {
    float* y = product.output + row * y_stride + begin;
    product.context.kernels.add(y, bound.bias + begin, y, static_cast<size_t>(end - begin));
  }
}

// What reads the matrix as it stands.
template <typename Function>
Function* reader_of(const weights::Matrix& matrix, const kernels::ByType<Function>& of_rows,
                    const kernels::ByType<Function>& of_strips) {
  Function* function = kernels::find(matrix.n_strip_rows > 0 ? of_strips : of_rows, matrix.type);
  TROIKA_ASSERT(function != nullptr);
  return function;
}

// Takes quantised activations; where a matrix stands in strips wholly, all workers share blocks of
// them that are made once.
void bind_q8(BoundOp* bound, const kernels::Table& kernels) {
  const weights::Matrix& matrix = bound->weight.matrix;
  bound->form = InputForm::kQ8;
  bound->matmul_q8 = reader_of(matrix, kernels.matmul_q8, kernels.matmul_q8_strips);
  const bool has_strips_only = matrix.n_strip_rows > 0 && matrix.n_strip_rows == matrix.n_rows;
  const bool is_of_experts = bound->op.kind == model::OpKind::kExpertLinear;
  kernels::MatmulSpread* spread = kernels::find(kernels.matmul_spread, matrix.type);
  if (has_strips_only && !is_of_experts && spread != nullptr) {
    bound->form = InputForm::kSpread;
    bound->matmul_spread = spread;
    bound->spread_token = kernels::find(kernels.spread_token, matrix.type);
  }
}

// One row as blocks, `step` apart, by way of a piece that stays in the first-level cache.
void spread_row(const BoundOp& bound, const kernels::Table& kernels, const float* x,
                kernels::TokenBlock* blocks, size_t step) {
  const auto k = static_cast<size_t>(bound.input_width);
  constexpr size_t kPiece = 8 * kernels::kQ8Padding;
  alignas(64) std::byte quantized[kernels::q8_row_bytes(kPiece)];
  for (size_t i = 0; i < k; i += kPiece) {
    const size_t n = std::min(kPiece, k - i);
    kernels.quantize_activations(x + i, quantized, n);
    bound.spread_token(quantized, n, blocks + i / kernels::kQ8Block * step, step);
  }
}

bool has_panels(const BoundOp& bound) {
  return bound.form == InputForm::kInt8 || bound.form == InputForm::kBf16;
}

ProductWeight weight_of(const BoundOp& bound, const OpContext& context) {
  ProductWeight weight = bound.weight;
  if (bound.lease == model::kNone) return weight;
  const weights::Lease& lease = context.leases->lease(bound.lease);
  weight.matrix.data = lease.rows();
  if (bound.form == InputForm::kInt8 && lease.panels() != nullptr) weight.panels = lease.panels();
  // Panels are rounded: only what is computed in their numerics class may read them.
  TROIKA_ASSERT(weight.panels != nullptr || weight.matrix.data != nullptr);
  return weight;
}

}  // namespace

void bind_product(BoundOp* bound, const weights::Store& weights, const kernels::Table& kernels,
                  Precision precision) {
  bound->weight.matrix = weights.matrix(bound->op.weight);
  if (bound->op.keeps_float) {
    bound->matmul_f32 = kernels::find(kernels.matmul_f32, bound->weight.matrix.type);
    TROIKA_ASSERT(bound->matmul_f32 != nullptr);
    return;
  }
  const bool is_int8 = precision.prefill == plan::Prefill::kInt8;
  if (is_int8 && precision.int8_rules != nullptr) {
    bound->int8_rule = (*precision.int8_rules)[static_cast<size_t>(bound->op.weight)];
  }
  if (is_int8 && bound->int8_rule.kind == Int8Rule::Kind::kGroup) {
    bound->weight.matrix = weights.grouped(bound->op.weight);
    bind_q8(bound, kernels);
    return;
  }
  if (is_int8) {
    bound->weight.panels = weights.int8_panels(bound->op.weight);
    bound->weight.row_largest = weights.row_largest(bound->op.weight);
    if (bound->weight.panels == nullptr && bound->weight.row_largest != nullptr) {
      bound->unpack_int8 =
          reader_of(bound->weight.matrix, kernels.unpack_int8, kernels.unpack_int8_strips);
    }
  }
  if (bound->weight.panels != nullptr || bound->unpack_int8 != nullptr) {
    bound->form = InputForm::kInt8;
    return;
  }
  const bool is_float = tensor::is_float(bound->weight.matrix.type);
  const bool is_q8 = precision.prefill == plan::Prefill::kQ8;
  // A matrix that has no form in whole numbers takes the next best.
  if (is_int8 || precision.prefill == plan::Prefill::kBf16 || (is_q8 && is_float)) {
    bound->form = InputForm::kBf16;
    bound->unpack_bf16 =
        reader_of(bound->weight.matrix, kernels.unpack_bf16, kernels.unpack_bf16_strips);
    return;
  }
  const bool is_exact = !is_q8 && (precision.activations == plan::Activations::kF32 ||
                                   precision.prefill == plan::Prefill::kF32);
  if (!is_exact && !is_float) {
    bind_q8(bound, kernels);
  } else {
    bound->matmul_f32 = kernels::find(kernels.matmul_f32, bound->weight.matrix.type);
    TROIKA_ASSERT(bound->matmul_f32 != nullptr);
  }
}

void prepare_row(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                 const float* x, std::byte* out) {
  const auto k = static_cast<size_t>(bound.input_width);
  switch (bound.form) {
    case InputForm::kQ8:
    case InputForm::kSpread:
      context.kernels.quantize_activations(x, out, k);
      break;
    case InputForm::kInt8:
      prepare_int8(bound, context, worker, row, x, out);
      break;
    case InputForm::kBf16:
      context.kernels.narrow_bf16(x, out, k);
      break;
    case InputForm::kFloat:
      std::memcpy(out, x, k * sizeof(float));
      break;
  }
}

void prepare_rows(const BoundOp& bound, const OpContext& context, int worker) {
  const auto k = static_cast<size_t>(bound.input_width);
  const float* x = context.input(bound);
  const int n_rows = n_rows_of(bound, context.run);
  const Share share = share_of(n_rows, worker, context.team.n_active());
  if (takes_blocks(bound, static_cast<size_t>(n_rows))) {
    const kernels::TokenGroups groups = {static_cast<size_t>(n_rows)};
    auto* const blocks = reinterpret_cast<kernels::TokenBlock*>(context.prepared);
    for (auto row = static_cast<size_t>(share.begin); row < static_cast<size_t>(share.end); ++row) {
      const size_t group = groups.of_token(row), first = groups.first(group);
      spread_row(bound, context.kernels, x + row * k,
                 blocks + first * kernels::n_token_blocks(k) + (row - first), groups.size(group));
    }
    return;
  }
  const size_t stride =
      form_bytes(bound.form == InputForm::kSpread ? InputForm::kQ8 : bound.form, k);
  for (auto row = static_cast<size_t>(share.begin); row < static_cast<size_t>(share.end); ++row) {
    prepare_row(bound, context, worker, row, x + row * k, context.prepared + row * stride);
  }
}

Multiplication whole_product(const BoundOp& bound, const OpContext& context, int worker) {
  return {bound,
          context,
          worker,
          weight_of(bound, context),
          context.prepared,
          context.input(bound),
          static_cast<size_t>(n_rows_of(bound, context.run)),
          context.output(bound)};
}

ProductItems items_of(const Multiplication& product, int64_t n_parallel) {
  const BoundOp& bound = product.bound;
  const OpContext& context = product.context;
  const int64_t n_rows = bound.n_columns();
  if (!has_panels(bound)) {
    const bool is_several = product.n_rows >= kSeveralTokens;
    const size_t bytes = is_several ? kLargeItemBytes : kItemBytes;
    auto fitting = static_cast<int64_t>(bytes / product.weight.matrix.row_bytes);
    if (is_several) {
      const int64_t n_items = kLeastItems * context.team.n_active();
      fitting = std::min(fitting, n_rows * n_parallel / n_items);
    }
    const int64_t size = std::max<int64_t>(1, fitting / kRowGranularity) * kRowGranularity;
    return {(n_rows + size - 1) / size, size};
  }
  const size_t n_strips = kernels::n_strips(static_cast<size_t>(n_rows));
  size_t together = bound.strips_together;
  if (bound.form == InputForm::kInt8 && product.weight.panels == nullptr) {
    together = std::min(together, unpacked_strips(static_cast<size_t>(bound.input_width)));
  }
  const auto n_enough = 2 * static_cast<size_t>(context.team.n_active());
  while (together > 1 && n_strips / together * static_cast<size_t>(n_parallel) < n_enough) {
    together /= 2;
  }
  return {static_cast<int64_t>((n_strips + together - 1) / together),
          static_cast<int64_t>(together)};
}

void run_item(const Multiplication& product, ProductItems items, int64_t item) {
  const BoundOp& bound = product.bound;
  if (!has_panels(bound)) {
    const int64_t begin = bound.first_column + item * items.size;
    const int64_t end = std::min<int64_t>(begin + items.size, bound.last_column);
    multiply_rows(product, begin, end);
    return;
  }
  const size_t last_strip = kernels::n_strips(static_cast<size_t>(bound.last_column));
  const auto first = static_cast<size_t>(bound.first_column) / kernels::kPanelRows +
                     static_cast<size_t>(item * items.size);
  multiply_strips(product, first, std::min(first + static_cast<size_t>(items.size), last_strip));
}

void run_linear(const BoundOp& bound, const OpContext& context, int index, int worker) {
  if (bound.prepares_input) {
    prepare_rows(bound, context, worker);
    context.team.barrier().wait();
  }
  if (worker == 0 && context.run.observer != nullptr && bound.first_column == 0 &&
      !bound.per_output && !bound.op.keeps_float) {
    context.run.observer->observe(bound.op, context.input(bound), context.run.n_tokens,
                                  bound.input_width);
  }
  const Multiplication product = whole_product(bound, context, worker);
  const ProductItems items = items_of(product);
  share_items(context, index, worker, items.n,
              [&](int64_t item) { run_item(product, items, item); });
}

size_t form_bytes(InputForm form, size_t k) {
  switch (form) {
    case InputForm::kFloat:
      return 0;
    case InputForm::kQ8:
      return kernels::q8_row_bytes(k);
    case InputForm::kSpread:
      return kernels::n_token_blocks(k) * sizeof(kernels::TokenBlock);
    case InputForm::kInt8:
      return kernels::int8_token_bytes(k);
    case InputForm::kBf16:
      return kernels::bf16_token_bytes(k);
  }
  return 0;
}

size_t prepared_row_bytes(const BoundOp& bound) {
  const auto k = static_cast<size_t>(bound.input_width);
  const bool is_gathered = bound.op.kind == model::OpKind::kExpertLinear && !bound.op.takes_parts;
  return bound.form == InputForm::kFloat && is_gathered ? k * sizeof(float)
                                                        : form_bytes(bound.form, k);
}

size_t n_prepared_rows(const BoundOp& bound, int n_tokens) {
  const bool is_of_experts = bound.op.kind == model::OpKind::kExpertLinear;
  return static_cast<size_t>(n_tokens) *
         static_cast<size_t>(is_of_experts ? bound.n_experts_used : 1);
}

size_t unpacked_bytes(const BoundOp& bound, int n_tokens) {
  if (bound.shares_keys) return prompt_attention_bytes(bound);
  if (bound.op.kind == model::OpKind::kAttention) {
    return attention_tile_bytes(bound.head_dim, n_tokens);
  }
  if (bound.unpack_bf16 != nullptr) return kStretchBytes;
  if (bound.unpack_int8 == nullptr) return 0;
  const auto k = static_cast<size_t>(bound.input_width);
  return kBesideBytes + unpacked_strips(k) * kernels::int8_strip_bytes(k);
}

}  // namespace troika::lanes
