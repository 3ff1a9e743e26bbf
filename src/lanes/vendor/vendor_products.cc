#include "lanes/vendor/vendor_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "lanes/vendor/sum_proof.h"

namespace troika::lanes {
namespace {

using openvino::ProductKind;

// Computes y = sums * x_scale * w_scales, in this order. Blocks of a fixed length become vectors.
void scale_row(const float* __restrict sums, float x_scale, const float* __restrict w_scales,
               float* __restrict y, size_t n) {
  constexpr size_t kBlock = 16;
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (size_t j = 0; j < kBlock; ++j) y[i + j] = sums[i + j] * x_scale * w_scales[i + j];
  }
  for (; i < n; ++i) y[i] = sums[i] * x_scale * w_scales[i];
}

ProductKind kind_of(const VendorProduct& product) {
  return product.bound.form == InputForm::kBf16 ? ProductKind::kBf16 : ProductKind::kLevels;
}

void refuse_sums(const VendorContext& context, const openvino::ProductWeights& weights,
                 const char* how) {
  throw Error(fmt::format("In a product of {} x {} the device {} of OpenVINO {}.", weights.n_rows(),
                          weights.k(), context.device, how));
}

// Runs a graph. Throws Error where that fails.
void run_once(const VendorContext& context, openvino::ProductGraph* graph, void* x, float* y) {
  const RealClock clock;
  const double start = clock.now_us();
  const bool has_run = graph->run(x, y);
  context.costs.first_run_us += clock.now_us() - start;
  if (has_run) return;
  throw Error(
      fmt::format("The device {} of OpenVINO does not run a product: {}. Leave it out of ‹lanes›.",
                  context.device, context.library->problem()));
}

// Runs a graph in bf16 and one for another number of tokens of the same weight (null: there is none
// yet). Throws Error where they do not add as they must.
void prove_floats(const VendorContext& context, const openvino::ProductWeights& weights,
                  openvino::ProductGraph* graph, openvino::ProductGraph* other) {
  uint16_t* const x = context.pool.bf16();
  float* const y = context.pool.sums();
  const openvino::ProductShape& shape = graph->shape();
  const int n_others = other == nullptr ? 0 : other->shape().n_tokens;
  openvino::ProductShape longest = shape;
  longest.n_tokens = std::max(shape.n_tokens, n_others);
  openvino::fill_bf16(longest, x);
  run_once(context, graph, x, y);
  if (!openvino::has_near_sums(shape, weights.bf16(), x, y)) {
    refuse_sums(context, weights,
                "has larger errors than bf16 has. Leave the device out "
                "of ‹lanes›, or compute prompts in int8 with one scale for a token");
  }
  if (other == nullptr) return;
  const auto n_both = static_cast<size_t>(std::min(shape.n_tokens, n_others));
  const std::vector<float> sums(y, y + n_both * static_cast<size_t>(shape.n_rows));
  run_once(context, other, x, y);
  if (std::memcmp(sums.data(), y, sums.size() * sizeof(float)) == 0) return;
  refuse_sums(context, weights,
              "adds floats in an order that depends on the number of tokens, so that "
              "results would depend on how a prompt is divided. Leave the device out of ‹lanes›, "
              "or compute prompts in int8 with one scale for a token");
}

void prove_levels(const VendorContext& context, const openvino::ProductWeights& weights,
                  openvino::ProductGraph* graph) {
  uint8_t* const x = context.pool.levels();
  float* const y = context.pool.sums();
  openvino::fill_extremes(graph->shape(), weights.levels(), x);
  run_once(context, graph, x, y);
  if (openvino::has_exact_sums(graph->shape(), weights.levels(), x, y)) return;
  refuse_sums(context, weights,
              "rounds sums of int8, so results would depend on which lane computes "
              "them. Leave the device out of ‹lanes›");
}

}  // namespace

void VendorPool::reserve(ProductKind kind, size_t n_tokens, size_t k, size_t n_rows,
                         size_t n_parts) {
  const auto grow = [](auto& values, size_t n) {
    n += kCacheLineBytes / sizeof(values[0]);
    if (values.size() < n) values.resize(n);
  };
  // Kernels fill the end of a row in bf16 with zeros.
  const size_t filling = kind == ProductKind::kBf16 ? kernels::bf16_token_bytes(k) : 0;
  grow(levels_, n_tokens * k * number_bytes(kind) + filling);
  grow(sums_, n_parts * n_tokens * n_rows);
  if (kind == ProductKind::kBf16) return;
  grow(scales_, n_tokens);
  grow(row_, k);
  grow(whole_sums_, n_rows);
  grow(token_, kernels::int8_token_bytes(k));
}

size_t VendorPool::bytes() const {
  return levels_.capacity() + token_.capacity() +
         (sums_.capacity() + scales_.capacity() + row_.capacity()) * sizeof(float) +
         whole_sums_.capacity() * sizeof(int32_t);
}

size_t VendorWeights::bytes() const {
  size_t bytes = scales.size() * sizeof(float);
  for (const auto& part : parts) bytes += part->bytes().size();
  return bytes;
}

std::shared_ptr<const VendorWeights> VendorShelf::weights_of(
    std::span<const VendorProduct> products) {
  std::string key;
  for (const VendorProduct& product : products) {
    const weights::Matrix& matrix = product.bound.weight.matrix;
    key += fmt::format("{}:{}x{}:{}-{} ", static_cast<const void*>(matrix.data), matrix.n_rows,
                       matrix.row_length, product.rows.begin, product.rows.end);
  }
  std::weak_ptr<const VendorWeights>& shelved = weights_[key];
  if (std::shared_ptr<const VendorWeights> kept = shelved.lock()) return kept;
  const bool is_bf16 = kind_of(products.front()) == ProductKind::kBf16;
  auto made = is_bf16 ? make_bf16(products) : make_levels(products);
  shelved = made;
  return made;
}

std::shared_ptr<const VendorWeights> VendorShelf::make_bf16(
    std::span<const VendorProduct> products) const {
  auto made = std::make_shared<VendorWeights>();
  for (const VendorProduct& product : products) {
    made->n_rows += static_cast<size_t>(product.rows.size());
  }
  const int k = products.front().bound.weight.matrix.row_length;
  const auto write = [&](std::byte* to) {
    auto* rows = reinterpret_cast<uint16_t*>(to);
    for (const VendorProduct& product : products) {
      write_bf16_rows(product.bound, product.rows, rows);
      rows += static_cast<size_t>(product.rows.size()) * static_cast<size_t>(k);
    }
  };
  made->parts.push_back(std::make_unique<openvino::ProductWeights>(
      library_, openvino::ProductShape{0, k, static_cast<int>(made->n_rows), ProductKind::kBf16},
      write));
  return made;
}

std::shared_ptr<const VendorWeights> VendorShelf::make_levels(
    std::span<const VendorProduct> products) const {
  LevelRows rows;
  for (const VendorProduct& product : products) append_rows(product.bound, product.rows, &rows);
  auto made = std::make_shared<VendorWeights>();
  made->n_rows = rows.n_rows();
  const int length = exact_part_length(rows, most_exact_sum_);
  for (int first = 0; first < rows.k; first += length) {
    const int k = std::min(length, rows.k - first);
    const auto write = [&](std::byte* levels) {
      const auto whole = static_cast<size_t>(rows.k), part = static_cast<size_t>(k);
      for (size_t row = 0; row < rows.n_rows(); ++row) {
        const int8_t* const from = rows.levels.data() + row * whole + static_cast<size_t>(first);
        std::memcpy(levels + row * part, from, part);
      }
    };
    made->parts.push_back(std::make_unique<openvino::ProductWeights>(
        library_, openvino::ProductShape{0, k, static_cast<int>(rows.n_rows())}, write));
  }
  made->scales = std::move(rows.scales);
  return made;
}

std::shared_ptr<openvino::ProductGraph> VendorShelf::graph_of(
    const openvino::ProductWeights& weights, int n_tokens,
    FunctionRef<std::shared_ptr<openvino::ProductGraph>()> make) {
  std::weak_ptr<openvino::ProductGraph>& shelved = graphs_[{&weights, n_tokens}];
  if (std::shared_ptr<openvino::ProductGraph> kept = shelved.lock()) return kept;
  std::shared_ptr<openvino::ProductGraph> made = make();
  shelved = made;
  return made;
}

std::shared_ptr<openvino::ProductGraph> VendorShelf::any_graph_of(
    const openvino::ProductWeights& weights) const {
  for (auto at = graphs_.lower_bound({&weights, 0});
       at != graphs_.end() && at->first.first == &weights; ++at) {
    if (std::shared_ptr<openvino::ProductGraph> graph = at->second.lock()) return graph;
  }
  return nullptr;
}

size_t VendorShelf::bytes() const {
  size_t bytes = 0;
  for (const auto& [key, shelved] : weights_) {
    if (const std::shared_ptr<const VendorWeights> weights = shelved.lock()) {
      bytes += weights->bytes();
    }
  }
  return bytes;
}

VendorProducts::VendorProducts(const VendorContext& context, std::vector<VendorProduct> products,
                               int first_token, int n_tokens)
    : kind_(kind_of(products.front())),
      n_tokens_(n_tokens),
      weights_(context.shelf.weights_of(products)) {
  const model::ValueId input = products.front().op->inputs[0];
  k_ = context.buffers.width(input);
  x_ = context.buffers.view(input).floats() + static_cast<size_t>(first_token) * k();
  rule_ = products.front().bound.int8_rule;
  size_t first = 0;
  for (VendorProduct& product : products) {
    const int width = context.buffers.width(product.op->output);
    float* const y = context.buffers.view(product.op->output).floats() +
                     static_cast<size_t>(first_token) * static_cast<size_t>(width);
    outputs_.push_back({product, y, width, first});
    first += static_cast<size_t>(product.rows.size());
  }
  compile(context);
}

void VendorProducts::compile(const VendorContext& context) {
  context.pool.reserve(kind_, n_built(), k(), n_rows(), weights_->parts.size());
  int first = 0;
  const RealClock clock;
  GraphCosts& costs = context.costs;
  for (const auto& weights : weights_->parts) {
    bool is_new = false;
    const auto make = [&] {
      const double start = clock.now_us();
      auto graph = std::make_shared<openvino::ProductGraph>(context.library, context.device,
                                                            *weights, n_tokens_, context.blobs);
      is_new = true;
      ++(graph->is_imported() ? costs.n_imported : costs.n_compiled);
      (graph->is_imported() ? costs.import_us : costs.compile_us) += clock.now_us() - start;
      prove(context, *weights, graph.get());
      return graph;
    };
    parts_.push_back({first, context.shelf.graph_of(*weights, n_tokens_, make)});
    if (is_new) {
      packed_bytes_ += weights->shape().weight_bytes();
    } else {
      ++costs.n_shared;
    }
    first += weights->k();
  }
}

// Runs a new graph once. Throws Error where it fails or does not add as it must.
void VendorProducts::prove(const VendorContext& context, const openvino::ProductWeights& weights,
                           openvino::ProductGraph* graph) {
  if (weights.shape().kind == ProductKind::kLevels) return prove_levels(context, weights, graph);
  prove_floats(context, weights, graph, context.shelf.any_graph_of(weights).get());
}

// Quantises some tokens. Levels stand part by part, each part as its graph takes it.
void VendorProducts::quantize(const kernels::Table& kernels, const float* x, size_t n_tokens,
                              VendorPool& pool) {
  std::byte* const token = pool.token();
  const kernels::Int8Token quantized = kernels::int8_token(token, k());
  for (size_t t = 0; t < n_tokens; ++t) {
    (void)quantize_token(kernels, rule_, x + t * k(), k(), pool.row(), token, nullptr);
    pool.scales()[t] = *quantized.scale;
    for (const SumPart& part : parts_) {
      const auto first = static_cast<size_t>(part.first_k);
      const auto n = static_cast<size_t>(part.graph->shape().k);
      std::memcpy(pool.levels() + first * n_built() + t * n, quantized.levels + first, n);
    }
  }
}

// Adds the parts of a token as whole numbers. No float may hold their sum exactly, so it is rounded
// once, as on the host.
void VendorProducts::join_parts(size_t token, VendorPool& pool) const {
  if (parts_.size() == 1) return;
  float* const sums = pool.sums() + token * n_rows();
  const size_t stride = n_built() * n_rows();
  int32_t* const whole = pool.whole_sums();
  std::fill_n(whole, n_rows(), 0);
  for (size_t part = 0; part < parts_.size(); ++part) {
    const float* const of_part = sums + part * stride;
    for (size_t i = 0; i < n_rows(); ++i) whole[i] += static_cast<int32_t>(of_part[i]);
  }
  for (size_t i = 0; i < n_rows(); ++i) sums[i] = static_cast<float>(whole[i]);
}

void VendorProducts::deliver(size_t n_tokens, size_t set_offset, VendorPool& pool) const {
  for (size_t t = 0; t < n_tokens; ++t) {
    join_parts(t, pool);
    for (const Output& output : outputs_) {
      const auto first_row = static_cast<size_t>(output.product.rows.begin);
      const auto n = static_cast<size_t>(output.product.rows.size());
      float* const y = output.y + set_offset + t * static_cast<size_t>(output.width) + first_row;
      const float* const sums = pool.sums() + t * n_rows() + output.first;
      if (kind_ == ProductKind::kBf16) {
        std::memcpy(y, sums, n * sizeof(float));
      } else {
        scale_row(sums, pool.scales()[t], weights_->scales.data() + output.first, y, n);
      }
      const float* const bias = output.product.bound.bias;
      if (bias == nullptr) continue;
      for (size_t i = 0; i < n; ++i) y[i] += bias[first_row + i];
    }
  }
}

// Tokens that are not present keep the activations of an earlier run.
bool VendorProducts::run_int8(const kernels::Table& kernels, const float* x, size_t n_tokens,
                              VendorPool& pool) {
  quantize(kernels, x, n_tokens, pool);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto first = static_cast<size_t>(parts_[i].first_k);
    uint8_t* const levels = pool.levels() + first * n_built();
    if (!parts_[i].graph->run(levels, pool.sums() + i * n_built() * n_rows())) return false;
  }
  return true;
}

bool VendorProducts::run_bf16(const kernels::Table& kernels, const float* x, size_t n_tokens,
                              VendorPool& pool) {
  // What fills the end of a row is overwritten by the next one.
  for (size_t t = 0; t < n_tokens; ++t) {
    kernels.narrow_bf16(x + t * k(), reinterpret_cast<std::byte*>(pool.bf16() + t * k()), k());
  }
  return parts_.front().graph->run(pool.bf16(), pool.sums());
}

bool VendorProducts::run(const kernels::Table& kernels, const Run& run, size_t set_offset,
                         VendorPool& pool) {
  const auto n_tokens = static_cast<size_t>(run.n_tokens);
  const float* const x = x_ + set_offset;
  if (run.observer != nullptr) {
    for (const Output& output : outputs_) {
      if (output.product.rows.begin > 0) continue;
      run.observer->observe(*output.product.op, x, run.n_tokens, k_);
    }
  }
  const bool is_done = kind_ == ProductKind::kBf16 ? run_bf16(kernels, x, n_tokens, pool)
                                                   : run_int8(kernels, x, n_tokens, pool);
  if (is_done) deliver(n_tokens, set_offset, pool);
  return is_done;
}

}  // namespace troika::lanes
