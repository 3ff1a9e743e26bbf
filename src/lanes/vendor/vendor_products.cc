#include "lanes/vendor/vendor_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "lanes/vendor/sum_proof.h"

namespace troika::lanes {
namespace {

constexpr size_t kPoolLine = 64;  // bytes
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

}  // namespace

template <typename T>
T* VendorPool::aligned(std::vector<T>& values) {
  const auto address = reinterpret_cast<uintptr_t>(values.data());
  return values.data() + (kPoolLine - address % kPoolLine) % kPoolLine / sizeof(T);
}

void VendorPool::reserve(size_t n_tokens, size_t k, size_t n_rows, size_t n_parts) {
  const auto grow = [](auto& values, size_t n) {
    n += kPoolLine / sizeof(values[0]);
    if (values.size() < n) values.resize(n);
  };
  grow(levels_, n_tokens * k);
  grow(sums_, n_parts * n_tokens * n_rows);
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
  LevelRows rows;
  for (const VendorProduct& product : products) append_rows(product.bound, product.rows, &rows);
  auto made = std::make_shared<VendorWeights>();
  const int length = exact_part_length(rows, most_exact_sum_);
  for (int first = 0; first < rows.k; first += length) {
    const int k = std::min(length, rows.k - first);
    const auto write = [&](int8_t* levels) {
      const auto whole = static_cast<size_t>(rows.k), part = static_cast<size_t>(k);
      for (size_t row = 0; row < rows.n_rows(); ++row) {
        const int8_t* const from = rows.levels.data() + row * whole + static_cast<size_t>(first);
        std::memcpy(levels + row * part, from, part);
      }
    };
    made->parts.push_back(std::make_unique<openvino::ProductWeights>(
        library_, k, static_cast<int>(rows.n_rows()), write));
  }
  made->scales = std::move(rows.scales);
  shelved = made;
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
    : n_tokens_(n_tokens), weights_(context.shelf.weights_of(products)) {
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
  context.pool.reserve(n_built(), k(), n_rows(), weights_->parts.size());
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
      packed_bytes_ += n_rows() * static_cast<size_t>(weights->k());
    } else {
      ++costs.n_shared;
    }
    first += weights->k();
  }
}

// Runs a new graph once, on extreme values. Throws Error where it fails or its sums are not exact.
void VendorProducts::prove(const VendorContext& context, const openvino::ProductWeights& weights,
                           openvino::ProductGraph* graph) {
  uint8_t* const x = context.pool.levels();
  float* const y = context.pool.sums();
  openvino::fill_extremes(graph->shape(), weights.levels(), x);
  const RealClock clock;
  const double start = clock.now_us();
  const bool has_run = graph->run(x, y);
  context.costs.first_run_us += clock.now_us() - start;
  if (!has_run) {
    throw Error(fmt::format(
        "The device {} of OpenVINO does not run a product: {}. Leave it out of ‹lanes›.",
        context.device, context.library->problem()));
  }
  if (openvino::has_exact_sums(graph->shape(), weights.levels(), x, y)) return;
  throw Error(fmt::format(
      "The device {} of OpenVINO rounds sums of a product of {} x {} in int8, so results would "
      "depend on which lane computes it. Leave the device out of ‹lanes›.",
      context.device, weights.n_rows(), weights.k()));
}

// Quantises some tokens. Levels stand part by part, each part as its graph takes it.
void VendorProducts::quantize(const kernels::Table& kernels, const float* x, size_t n_tokens,
                              VendorPool& pool) {
  std::byte* const token = pool.token();
  const kernels::Int8Token quantized = kernels::int8_token(token, k());
  for (size_t t = 0; t < n_tokens; ++t) {
    const float* row = x + t * k();
    if (rule_.factors != nullptr) {
      for (size_t i = 0; i < k(); ++i) pool.row()[i] = row[i] * rule_.factors[i];
      row = pool.row();
    }
    if (rule_.kind == Int8Rule::Kind::kLimit) {
      kernels.quantize_int8_within(row, rule_.range, token, nullptr, k());
    } else {
      kernels.quantize_int8(row, token, k());
    }
    pool.scales()[t] = *quantized.scale;
    for (const Part& part : parts_) {
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

void VendorProducts::scale(size_t n_tokens, size_t set_offset, VendorPool& pool) const {
  for (size_t t = 0; t < n_tokens; ++t) {
    join_parts(t, pool);
    const float x_scale = pool.scales()[t];
    for (const Output& output : outputs_) {
      const auto first_row = static_cast<size_t>(output.product.rows.begin);
      const auto n = static_cast<size_t>(output.product.rows.size());
      float* const y = output.y + set_offset + t * static_cast<size_t>(output.width) + first_row;
      const float* const sums = pool.sums() + t * n_rows() + output.first;
      const float* const w_scales = weights_->scales.data() + output.first;
      scale_row(sums, x_scale, w_scales, y, n);
      const float* const bias = output.product.bound.bias;
      if (bias == nullptr) continue;
      for (size_t i = 0; i < n; ++i) y[i] += bias[first_row + i];
    }
  }
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
  quantize(kernels, x, n_tokens, pool);
  // Tokens that are not present keep the levels of an earlier run.
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto first = static_cast<size_t>(parts_[i].first_k);
    uint8_t* const levels = pool.levels() + first * n_built();
    if (!parts_[i].graph->run(levels, pool.sums() + i * n_built() * n_rows())) return false;
  }
  scale(n_tokens, set_offset, pool);
  return true;
}

}  // namespace troika::lanes
