#include "lanes/host/products.h"

#include <algorithm>
#include <cstring>

#include "base/cache_line.h"
#include "base/error.h"
#include "tensor/strips.h"

namespace troika::lanes {
namespace {

// A worker takes the rows of a weight in multiples of this.
constexpr int64_t kRowGranularity = Slice::kRowGranularity;
// Counts the bytes of a weight that a worker takes at a time: few enough that none waits long for
// the last one, enough that a stream of reads gets under way.
constexpr size_t kItemBytes = 32 << 10;
// From kSeveralTokens tokens on, kernels unpack the rows of an item before they multiply. Each
// worker then gets kLeastItems items, as far as there are rows, because small items would unpack
// too often.
constexpr size_t kSeveralTokens = 5;
constexpr size_t kLargeItemBytes = 512 << 10;
constexpr size_t kTurnedAlignment = 64;
constexpr int64_t kLeastItems = 4;

// Brings one row into int8 by the rule of its product. What is taken out goes to the row's list of
// outliers.
void prepare_int8(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                  const float* x, std::byte* out) {
  const auto k = static_cast<size_t>(bound.input_width);
  const Int8Rule& rule = bound.as<BoundProduct>().int8_rule;
  float* scratch = context.scratch + static_cast<size_t>(worker) * context.scratch_floats;
  kernels::Outlier* outliers = rule.takes_outliers() ? context.outliers + row * k : nullptr;
  const size_t n_outliers = quantize_token(context.kernels, rule, x, k, scratch, out, outliers);
  if (outliers != nullptr) context.outlier_counts[row] = static_cast<uint32_t>(n_outliers);
}

// The buffer of a worker that unpacks strips begins with the scales and starts of
// kMostStripsTogether strips, which take this number of bytes.
constexpr size_t kBesideBytes =
    kMostStripsTogether * kernels::kStripRows * (sizeof(float) + sizeof(int32_t));
size_t unpacked_strips(size_t k) {
  size_t n = kMostStripsTogether;
  while (n > 1 && n * kernels::int8_strip_bytes(k) > kMostUnpackedBytes) n /= 2;
  return n;
}

// Returns rows [first, last) of a product's weight.
kernels::MatmulWeight rows_of(const ProductWork& work, size_t first, size_t last) {
  const weights::Matrix& matrix = work.weight.matrix;
  return {matrix.data,
          matrix.row_bytes,
          work.k(),
          first,
          std::min(last, static_cast<size_t>(matrix.n_rows)),
          static_cast<size_t>(matrix.n_strip_rows)};
}

// Unpacks some strips of a matrix without packed copy into this worker's buffer.
kernels::Int8Panels unpack_strips(const ProductWork& work, size_t first_strip, size_t last_strip) {
  constexpr size_t kRowsTogether = kMostStripsTogether * kernels::kStripRows;
  const size_t k = work.k();
  const auto n_rows = static_cast<size_t>(work.weight.matrix.n_rows);
  std::byte* const buffer = work.context.stretch_of(work.worker);
  auto* scales = reinterpret_cast<float*>(buffer);
  auto* starts = reinterpret_cast<int32_t*>(buffer + kRowsTogether * sizeof(float));
  auto* levels = reinterpret_cast<int8_t*>(buffer + kBesideBytes);
  for (size_t strip = first_strip; strip < last_strip; ++strip) {
    const size_t first_row = strip * kernels::kStripRows, i = strip - first_strip;
    work.product.unpack_int8(rows_of(work, first_row, first_row + kernels::kStripRows),
                             work.weight.row_largest + first_row,
                             {levels + i * kernels::int8_strip_bytes(k),
                              scales + i * kernels::kStripRows, starts + i * kernels::kStripRows});
  }
  return {levels, scales, starts, n_rows, k, first_strip};
}

// Multiplies some strips in bfloat16: a stretch of their rows is unpacked, then multiplied with all
// tokens.
void multiply_bf16(const ProductWork& work, kernels::PanelProduct strips) {
  const size_t k = work.k();
  const auto n_rows = static_cast<size_t>(work.weight.matrix.n_rows);
  auto* panel = reinterpret_cast<uint16_t*>(work.context.stretch_of(work.worker));
  const std::byte* x = strips.x;
  for (size_t first_k = 0; first_k < k; first_k += kStretch) {
    const size_t n_k = kernels::bf16_depth(std::min(kStretch, k - first_k));
    for (size_t strip = strips.first_strip; strip < strips.last_strip; ++strip) {
      const size_t first_row = strip * kernels::kStripRows;
      work.product.unpack_bf16(rows_of(work, first_row, first_row + kernels::kStripRows), first_k,
                               n_k,
                               panel + (strip - strips.first_strip) * kernels::kStripRows * n_k);
    }
    strips.x = x + first_k * sizeof(uint16_t);
    work.context.kernels.matmul_bf16({panel, n_rows, n_k, first_k == 0, first_k + kStretch >= k},
                                     strips);
  }
}

// Adds the products of what was taken out of the activations, in float (N4).
void add_outliers(const ProductWork& work, const kernels::Int8Panels& panels,
                  const kernels::PanelProduct& strips) {
  const BoundProduct& product = work.product;
  const OpContext& context = work.context;
  if (!product.int8_rule.takes_outliers() || product.outliers.role == Role::kProduct) return;
  context.kernels.add_outliers(
      panels, {strips.first_strip, strips.last_strip, strips.n_tokens, context.outliers, work.k(),
               context.outlier_counts, strips.y, strips.y_stride});
}

// Multiplies some strips of rows with all tokens. The sums of an output never depend on which
// worker takes which strips.
void multiply_strips(const ProductWork& work, size_t first_strip, size_t last_strip) {
  const BoundProduct& product = work.product;
  kernels::PanelProduct strips;
  strips.first_strip = first_strip;
  strips.last_strip = last_strip;
  strips.n_tokens = work.n_rows;
  strips.x = work.prepared;
  strips.x_stride_bytes = form_bytes(product.form, work.k());
  strips.bias = product.bias;
  strips.y = work.output;
  strips.y_stride = work.output_width();
  if (product.form == InputForm::kBf16) {
    multiply_bf16(work, strips);
    return;
  }
  const kernels::Int8Panels panels = work.weight.panels != nullptr
                                         ? *work.weight.panels
                                         : unpack_strips(work, first_strip, last_strip);
  work.context.kernels.matmul_int8(panels, strips);
  add_outliers(work, panels, strips);
}

// Says whether the input stands there as blocks.
bool takes_blocks(const BoundProduct& product, size_t n_rows) {
  const size_t fewest = product.turned_from > 0 ? product.turned_from : kSeveralTokens;
  return product.form == InputForm::kSpread && n_rows >= fewest;
}

// Returns how many rows a worker turns at a time.
size_t turned_rows(size_t row_bytes, size_t n_rows) {
  const size_t n_fitting = kMostTurnedBytes / row_bytes / kernels::kStripRows * kernels::kStripRows;
  return std::clamp(n_fitting, kernels::kStripRows, std::max(n_rows, kernels::kStripRows));
}

// Brings rows [begin, end) of the weight side by side in this worker's buffer, as the rows of a
// matrix of their own. Those behind the last 16 stay as they are.
kernels::MatmulWeight turn_rows(const ProductWork& work, size_t begin, size_t end) {
  const weights::Matrix& matrix = work.weight.matrix;
  const size_t n_rows = end - begin;
  const size_t n_strip_rows = n_rows / kernels::kStripRows * kernels::kStripRows;
  std::byte* const to = work.context.stretch_of(work.worker);
  const std::byte* const from = matrix.data + begin * matrix.row_bytes;
  TROIKA_ASSERT(n_rows * matrix.row_bytes <= work.context.stretch_bytes);
  for (size_t row = 0; row < n_strip_rows; row += kernels::kStripRows) {
    const size_t at = row * matrix.row_bytes;
    tensor::pack_strip(matrix.type, from + at, work.k(), to + at);
  }
  const size_t strip_bytes = n_strip_rows * matrix.row_bytes;
  std::memcpy(to + strip_bytes, from + strip_bytes, n_rows * matrix.row_bytes - strip_bytes);
  return {to, matrix.row_bytes, work.k(), 0, n_rows, n_strip_rows};
}

// Multiplies rows of a weight with all tokens, and writes the product of row r to y + r.
void multiply_weight(const ProductWork& work, const kernels::MatmulWeight& weight,
                     kernels::MatmulQ8* matmul_q8, float* y) {
  const BoundProduct& product = work.product;
  const size_t y_stride = work.output_width();
  if (takes_blocks(product, work.n_rows)) {
    product.matmul_spread(weight, work.n_rows,
                          reinterpret_cast<const kernels::TokenBlock*>(work.prepared), y, y_stride);
  } else if (matmul_q8 != nullptr) {
    matmul_q8(weight, work.n_rows, work.prepared, kernels::q8_row_bytes(work.k()), y, y_stride);
  } else {
    product.matmul_f32(weight, work.n_rows, work.floats, work.k(), y, y_stride);
  }
}

// Multiplies rows [begin, end) of the weight with all tokens.
void multiply_rows(const ProductWork& work, int64_t begin, int64_t end) {
  const BoundProduct& product = work.product;
  const size_t y_stride = work.output_width();
  const kernels::MatmulWeight weight =
      rows_of(work, static_cast<size_t>(begin), static_cast<size_t>(end));
  if (product.turns_rows(work.n_rows)) {
    multiply_weight(work, turn_rows(work, weight.first_row, weight.last_row), product.matmul_turned,
                    work.output + begin);
  } else {
    multiply_weight(work, weight, product.matmul_q8, work.output);
  }
  if (product.bias == nullptr) return;
  for (size_t row = 0; row < work.n_rows; ++row) {
    float* y = work.output + row * y_stride + begin;
    work.context.kernels.add(y, product.bias + begin, y, static_cast<size_t>(end - begin));
  }
}

// Brings one row into blocks that stand `stride` apart, through a piece that stays in the
// first-level cache.
void spread_row(const BoundProduct& product, const kernels::Table& kernels, const float* x,
                size_t k, kernels::TokenBlock* blocks, size_t stride) {
  constexpr size_t kPiece = 8 * kernels::kQ8Padding;
  alignas(64) std::byte quantized[kernels::q8_row_bytes(kPiece)];
  for (size_t i = 0; i < k; i += kPiece) {
    const size_t n = std::min(kPiece, k - i);
    kernels.quantize_activations(x + i, quantized, n);
    product.spread_token(quantized, n, blocks + i / kernels::kQ8Block * stride, stride);
  }
}

// Asks for the lines of a single row into which a worker will write its part. Others have read what
// the last product left there. Without this a worker would wait for each line at the end of an
// item, because counting items waits for what was written.
void ask_for_outputs(const ProductWork& work, ProductItems items, int worker) {
  const OpContext& context = work.context;
  const int n_workers = context.team.n_active();
  if (work.n_rows != 1 || n_workers == 1 || work.product.has_panels()) return;
  const Share share = share_of(items.n, worker, n_workers);
  const int64_t begin = work.bound.first_column + share.begin * items.size;
  const int64_t end =
      std::min<int64_t>(work.bound.first_column + share.end * items.size, work.bound.last_column);
  for (int64_t i = begin; i < end; i += int64_t{kFloatsOfLine}) ask_to_write(work.output + i);
}

ProductWeight weight_of(const BoundProduct& product, const OpContext& context) {
  ProductWeight weight = product.weight;
  if (product.lease == model::kNone) return weight;
  const weights::Lease& lease = context.leases->lease(product.lease);
  weight.matrix.data = lease.rows();
  if (product.form == InputForm::kInt8 && lease.panels() != nullptr) weight.panels = lease.panels();
  // Panels hold rounded weights: only products of their numerics class may read them.
  TROIKA_ASSERT(weight.panels != nullptr || weight.matrix.data != nullptr);
  return weight;
}

}  // namespace

void prepare_row(const BoundOp& bound, const OpContext& context, int worker, size_t row,
                 const float* x, std::byte* out) {
  const auto k = static_cast<size_t>(bound.input_width);
  switch (bound.as<BoundProduct>().form) {
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
  const auto& product = bound.as<BoundProduct>();
  const auto k = static_cast<size_t>(bound.input_width);
  const float* x = context.input(bound);
  const int n_rows = context.n_rows(bound);
  const Share share = context.own_values != nullptr
                          ? Share{0, n_rows}
                          : share_of(n_rows, worker, context.team.n_active());
  if (takes_blocks(product, static_cast<size_t>(n_rows))) {
    const kernels::TokenGroups groups = {static_cast<size_t>(n_rows)};
    auto* const blocks = reinterpret_cast<kernels::TokenBlock*>(context.prepared);
    for (auto row = static_cast<size_t>(share.begin); row < static_cast<size_t>(share.end); ++row) {
      const size_t group = groups.of_token(row), first = groups.first(group);
      spread_row(product, context.kernels, x + row * k, k,
                 blocks + first * kernels::n_token_blocks(k) + (row - first), groups.size(group));
    }
    return;
  }
  const size_t stride =
      form_bytes(product.form == InputForm::kSpread ? InputForm::kQ8 : product.form, k);
  for (auto row = static_cast<size_t>(share.begin); row < static_cast<size_t>(share.end); ++row) {
    prepare_row(bound, context, worker, row, x + row * k, context.prepared + row * stride);
  }
}

ProductWork whole_product(const BoundOp& bound, const OpContext& context, int worker) {
  const auto& product = bound.as<BoundProduct>();
  return {bound,
          product,
          context,
          worker,
          weight_of(product, context),
          context.prepared,
          context.input(bound),
          static_cast<size_t>(context.n_rows(bound)),
          context.output(bound)};
}

ProductItems items_of(const ProductWork& work, int64_t n_parallel) {
  const BoundProduct& product = work.product;
  const OpContext& context = work.context;
  const int64_t n_rows = work.bound.n_columns();
  if (!product.has_panels()) {
    const bool is_several = work.n_rows >= kSeveralTokens;
    const size_t bytes = is_several ? kLargeItemBytes : kItemBytes;
    const size_t row_bytes = work.weight.matrix.row_bytes;
    auto fitting = static_cast<int64_t>(bytes / row_bytes);
    if (product.turns_rows(work.n_rows)) {
      fitting = static_cast<int64_t>(turned_rows(row_bytes, static_cast<size_t>(n_rows)));
    }
    if (is_several) {
      const int64_t n_items = kLeastItems * context.team.n_active();
      fitting = std::min(fitting, n_rows * n_parallel / n_items);
    }
    const int64_t size = std::max<int64_t>(1, fitting / kRowGranularity) * kRowGranularity;
    return {(n_rows + size - 1) / size, size};
  }
  const size_t n_strips = kernels::n_strips(static_cast<size_t>(n_rows));
  size_t together = product.strips_together;
  if (product.form == InputForm::kInt8 && work.weight.panels == nullptr) {
    together = std::min(together, unpacked_strips(work.k()));
  }
  const auto n_enough = 2 * static_cast<size_t>(context.team.n_active());
  while (together > 1 && n_strips / together * static_cast<size_t>(n_parallel) < n_enough) {
    together /= 2;
  }
  return {static_cast<int64_t>((n_strips + together - 1) / together),
          static_cast<int64_t>(together)};
}

void run_item(const ProductWork& work, ProductItems items, int64_t item) {
  const BoundOp& bound = work.bound;
  if (!work.product.has_panels()) {
    const int64_t begin = bound.first_column + item * items.size;
    const int64_t end = std::min<int64_t>(begin + items.size, bound.last_column);
    multiply_rows(work, begin, end);
    return;
  }
  const size_t last_strip = kernels::n_strips(static_cast<size_t>(bound.last_column));
  const auto first = static_cast<size_t>(bound.first_column) / kernels::kStripRows +
                     static_cast<size_t>(item * items.size);
  multiply_strips(work, first, std::min(first + static_cast<size_t>(items.size), last_strip));
}

void run_linear(const BoundOp& bound, const OpContext& context, int index, int worker) {
  if (bound.as<BoundProduct>().prepares_input) {
    prepare_rows(bound, context, worker);
    if (context.own_values == nullptr) context.team.barrier().wait();
  }
  if (worker == 0 && context.run.observer != nullptr && bound.first_column == 0 &&
      !bound.per_output && !bound.op.keeps_float) {
    context.run.observer->observe(bound.op, context.input(bound), context.run.n_tokens,
                                  bound.input_width);
  }
  const ProductWork work = whole_product(bound, context, worker);
  const ProductItems items = items_of(work);
  ask_for_outputs(work, items, worker);
  share_items(context, index, worker, items.n, [&](int64_t item) { run_item(work, items, item); });
}

size_t unpacked_weight_bytes(const BoundOp& bound, size_t n_tokens) {
  const auto& product = bound.as<BoundProduct>();
  if (product.turns_rows(n_tokens)) {
    const size_t row_bytes = product.weight.matrix.row_bytes;
    const size_t bytes = row_bytes * turned_rows(row_bytes, static_cast<size_t>(bound.n_columns()));
    return (bytes + kTurnedAlignment - 1) / kTurnedAlignment * kTurnedAlignment;
  }
  if (product.unpack_bf16 != nullptr) return kStretchBytes;
  if (product.unpack_int8 == nullptr) return 0;
  const auto k = static_cast<size_t>(bound.input_width);
  return kBesideBytes + unpacked_strips(k) * kernels::int8_strip_bytes(k);
}

}  // namespace troika::lanes
