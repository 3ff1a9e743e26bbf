#include "lanes/opencl/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace troika::lanes::opencl {
namespace {

class Product : public DeviceOp {
 public:
  // `pool` is null where activations are floats.
  Product(const DeviceTools& tools, const BoundOp& bound, const LevelPool* pool, size_t n_tokens,
          bool is_half)
      : tools_(tools), bound_(bound), pool_(pool), y_(tools.place_of(bound.output)) {
    const auto& product = bound.as<BoundProduct>();
    const Range rows = {bound.first_column, bound.last_column};
    weight_ = pool != nullptr ? tools.shelf.exact_panels_of(product, rows, pool->has_quads())
                              : tools.shelf.panels_of(product.weight.matrix, rows);
    bias_ = tools.shelf.vector_of(product.bias, static_cast<size_t>(bound.output_width));
    if (pool == nullptr) x_ = tools.place_of(bound.inputs[0]);
    TROIKA_ASSERT(!is_half || fits_halves(weight_->form));
    is_half_ = is_half;
    for (const Tile::Size size : {Tile::kMany, Tile::kSome, Tile::kOne}) bind_tile(size);
    if (pool == nullptr) input_.emplace(tools, *weight_, options(), n_tokens, is_half);
  }

  Int enqueue(const DeviceRun& run) override {
    const size_t n_tokens = run.n_rows(bound_);
    if (n_tokens == 0) return kOk;
    FloatInput::Place x = {x_.buffer, x_.offset_floats() + run.set_offset};
    if (pool_ != nullptr) {
      const Place levels = tools_.memory.locate(pool_->levels());
      x = {levels.buffer, levels.offset_floats(), tools_.memory.locate(pool_->scales()).buffer};
    } else if (const Int status = input_->enqueue(n_tokens, &x); status != kOk) {
      return status;
    }
    const auto run_tile = [&](Tile::Size size, size_t first, size_t n) {
      kernels_[size]->set(9, x.x, x.x_offset, x.of_groups, y_.buffer,
                          y_.offset_floats() + run.set_offset, static_cast<uint32_t>(first),
                          static_cast<uint32_t>(first + n));
      return run_tiles(size, n);
    };
    const size_t n_many = tools_.variants.tile(Tile::kMany).n_tokens;
    const size_t n_full = n_tokens / n_many * n_many;
    const size_t n_rest = n_tokens - n_full;
    if (n_full > 0) {
      const Int status = run_tile(Tile::kMany, 0, n_full);
      if (status != kOk) return status;
    }
    if (n_rest == 0) return kOk;
    if (n_rest == 1) return run_tile(Tile::kOne, n_full, 1);
    return run_tile(
        n_rest <= tools_.variants.tile(Tile::kSome).n_tokens ? Tile::kSome : Tile::kMany, n_full,
        n_rest);
  }

 private:
  std::string options() const { return tools_.variants.options(weight_->form, is_half_); }

  Int run_tiles(Tile::Size size, size_t n_tokens) {
    const Variants& variants = tools_.variants;
    const Tile& tile = variants.tile(size);
    const size_t rows = variants.piece_rows() * tile.n_pieces;
    const size_t n_0 = (n_tokens + tile.n_tokens - 1) / tile.n_tokens;
    const size_t n_1 = (weight_->n_rows + rows - 1) / rows;
    const size_t split = variants.split(weight_->form);
    if (split == 1) return kernels_[size]->run(n_0, n_1);
    return kernels_[size]->run_groups(n_0, n_1, Variants::kPiecesTogether, split);
  }

  void bind_tile(Tile::Size size) {
    const auto handle = [](const auto& memory) -> Buffer {
      return memory != nullptr ? memory->handle() : nullptr;
    };
    kernels_[size] =
        tools_.programs.kernel("product", options(), tools_.variants.tile(size).kernel);
    kernels_[size]->set(
        0, handle(weight_->levels), handle(weight_->scales), handle(weight_->minima), handle(bias_),
        static_cast<uint32_t>(weight_->n_inputs()), static_cast<uint32_t>(bound_.first_column),
        static_cast<uint32_t>(bound_.last_column), static_cast<uint32_t>(bias_ != nullptr ? 1 : 0),
        static_cast<uint32_t>(bound_.output_width));
  }

  DeviceTools tools_;
  BoundOp bound_;
  const LevelPool* pool_;
  Place x_, y_;
  std::shared_ptr<const DevicePanels> weight_;
  std::shared_ptr<const DeviceMemory> bias_;
  std::unique_ptr<BoundKernel> kernels_[Tile::kSizes];
  std::optional<FloatInput> input_;  // is there where activations are floats
  bool is_half_ = false;
};

class Embedding : public DeviceOp {
 public:
  Embedding(const DeviceTools& tools, const BoundOp& bound)
      : bound_(bound),
        y_(tools.place_of(bound.output)),
        weight_(tools.shelf.panels_of(bound.as<BoundEmbedding>().matrix,
                                      {0, bound.as<BoundEmbedding>().matrix.n_rows})),
        kernel_(tools.programs.kernel("product", tools.variants.options(weight_->form), "embed")) {
    const auto handle = [](const auto& memory) -> Buffer {
      return memory != nullptr ? memory->handle() : nullptr;
    };
    kernel_->set(0, handle(weight_->levels), handle(weight_->scales), handle(weight_->minima),
                 static_cast<uint32_t>(weight_->k), bound.op.scale);
  }
  Int enqueue(const DeviceRun& run) override {
    kernel_->set(5, run.data.buffer(), run.data.tokens(), y_.buffer,
                 y_.offset_floats() + run.set_offset);
    return kernel_->run(weight_->n_groups(), run.n_rows(bound_));
  }

 private:
  BoundOp bound_;
  Place y_;
  std::shared_ptr<const DevicePanels> weight_;
  std::unique_ptr<BoundKernel> kernel_;
};

}  // namespace

FloatInput::FloatInput(const DeviceTools& tools, const DevicePanels& weight,
                       const std::string& options, size_t n_rows, bool is_half)
    : group_sums_(tools.group_sums),
      halves_(tools.halves),
      k_(weight.k),
      n_groups_(weight.n_groups()),
      is_half_(is_half) {
  const size_t group_bytes = n_rows * n_groups_ * sizeof(float);
  if (is_half_) {
    halves_.reserve(n_rows * k_ * sizeof(uint16_t));
    group_sums_.reserve(2 * group_bytes);
    kernel_ = tools.programs.kernel("product", options, "narrow_groups");
  } else if (weight.form.has_minima) {
    group_sums_.reserve(group_bytes);
    kernel_ = tools.programs.kernel("product", options, "sum_groups");
  }
}

Int FloatInput::enqueue(size_t n_rows, Place* place) {
  if (kernel_ == nullptr) return kOk;
  place->of_groups = group_sums_.handle();
  kernel_->set(0, place->x, place->x_offset, static_cast<uint32_t>(k_));
  if (is_half_) {
    place->x = halves_.handle();
    place->x_offset = 0;
    kernel_->set(3, place->x, place->of_groups);
  } else {
    kernel_->set(3, place->of_groups);
  }
  return kernel_->run(n_groups_, n_rows);
}

LevelPool::~LevelPool() {
  if (levels_ != nullptr) memory_->free(levels_);
  if (scales_ != nullptr) memory_->free(scales_);
}

size_t LevelPool::level_bytes(size_t k) const {
  return has_quads_ ? (k + kQuad - 1) / kQuad * kQuad : k * sizeof(float);
}

void LevelPool::grow(std::byte** begin, size_t* bytes, size_t wanted) {
  if (wanted <= *bytes) return;
  // Products that are made already keep what they have if this throws.
  std::byte* const larger = memory_->allocate(wanted);
  if (larger == nullptr) {
    throw Error(
        fmt::format("No memory that the OpenCL device shares, of {} bytes. Use shorter "
                    "parts of prompts (‹chunk›).",
                    wanted));
  }
  if (*begin != nullptr) memory_->free(*begin);
  *begin = larger;
  *bytes = wanted;
}

void LevelPool::reserve(size_t n_tokens, size_t k) {
  grow(&levels_, &level_bytes_, n_tokens * level_bytes(k));
  grow(&scales_, &scale_bytes_, n_tokens * sizeof(float));
  if (row_.size() < k) row_.resize(k);
  if (token_.size() < kernels::int8_token_bytes(k)) token_.resize(kernels::int8_token_bytes(k));
}

size_t LevelPool::bytes() const {
  return level_bytes_ + scale_bytes_ + row_.capacity() * sizeof(float) + token_.capacity();
}

void Quantizer::place_levels(const uint8_t* levels, bool has_quads, std::byte* to) const {
  constexpr int kZeroLevel = 128;
  if (!has_quads) {
    auto* const floats = reinterpret_cast<float*>(to);
    for (size_t i = 0; i < k_; ++i) {
      floats[i] = static_cast<float>(static_cast<int>(levels[i]) - kZeroLevel);
    }
    return;
  }
  for (size_t i = 0; i < k_; ++i) {
    to[i] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(levels[i]) - kZeroLevel));
  }
  for (size_t i = k_; i % kQuad != 0; ++i) to[i] = std::byte{0};
}

void Quantizer::run(const kernels::Table& kernels, const DeviceRun& run, LevelPool& pool) const {
  const auto n_tokens = static_cast<size_t>(run.run.n_tokens);
  const kernels::Int8Token token = kernels::int8_token(pool.token(), k_);
  for (size_t t = 0; t < n_tokens; ++t) {
    const float* const x = x_ + run.set_offset + t * k_;
    (void)quantize_token(kernels, rule_, x, k_, pool.row(), pool.token(), nullptr);
    pool.scales()[t] = *token.scale;
    place_levels(token.levels, pool.has_quads(), pool.levels() + t * pool.level_bytes(k_));
  }
}

std::unique_ptr<DeviceOp> make_product(const DeviceTools& tools, const BoundOp& bound, int n_tokens,
                                       bool is_half) {
  return std::make_unique<Product>(tools, bound, nullptr, static_cast<size_t>(n_tokens), is_half);
}

std::unique_ptr<DeviceOp> make_exact_product(const DeviceTools& tools, const BoundOp& bound,
                                             const LevelPool& pool) {
  return std::make_unique<Product>(tools, bound, &pool, 0, false);
}

std::unique_ptr<DeviceOp> make_embedding(const DeviceTools& tools, const BoundOp& bound) {
  return std::make_unique<Embedding>(tools, bound);
}

}  // namespace troika::lanes::opencl
