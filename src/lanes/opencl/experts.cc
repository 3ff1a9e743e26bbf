// Ops of a mixture of experts, as kernels of kernels/experts.cl and kernels/product.cl. Nobody but
// the device knows which experts tokens take, so products have as many work items as they may need.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "lanes/host/experts/experts.h"
#include "lanes/opencl/products.h"

namespace troika::lanes::opencl {
namespace {

using model::OpKind;

// These say how many elements of a sum a work item has, as in pointwise.cc.
constexpr size_t kElementsOfCores = 1024, kElementsOfOthers = 16;

uint32_t narrow(size_t n) { return static_cast<uint32_t>(n); }

// How many experts there are, and how many a token takes.
struct ExpertNumbers {
  size_t n, n_used;

  explicit ExpertNumbers(const BoundOp& bound) {
    const ExpertCounts* const counts = experts_of(bound);
    TROIKA_ASSERT(counts != nullptr && counts->source == nullptr);
    n = static_cast<size_t>(counts->n);
    n_used = static_cast<size_t>(counts->n_used);
  }
  // Returns a tile that fits the parts of n_tokens tokens: with few of them experts have one each.
  Tile::Size tile(size_t n_tokens) const {
    if (n_tokens == 1) return Tile::kOne;
    return n_tokens * n_used <= 4 * n ? Tile::kSome : Tile::kMany;
  }
  // Returns the most tiles into which their parts may be divided.
  size_t most_tiles(size_t n_tokens, size_t tile_rows) const {
    const size_t n_parts = n_tokens * n_used;
    return std::min(n_parts, n_parts / tile_rows + n);
  }
};

// Makes the table that says where parts stand.
class PartsTable {
 public:
  PartsTable(const DeviceTools& tools, const BoundOp& bound, int n_tokens)
      : tools_(tools),
        experts_(bound),
        routes_(tools.place_of(bound.inputs[1])),
        count_(tools.programs.kernel("experts", options_of(tools), "count_parts")),
        place_(tools.programs.kernel("experts", options_of(tools), "place_parts")) {
    tools.parts.reserve(
        parts_table_bytes(static_cast<size_t>(n_tokens), experts_.n, experts_.n_used));
  }
  static std::string options_of(const DeviceTools& tools) {
    const bool is_cpu = tools.device->entry().is_cpu;
    return fmt::format("-DSTRETCH={}", is_cpu ? kElementsOfCores : kElementsOfOthers);
  }
  Int enqueue(const DeviceRun& run, size_t n_tokens) {
    const uint64_t offset = routes_.offset_floats() + run.set_offset;
    const uint32_t n_parts = narrow(n_tokens * experts_.n_used);
    const size_t tile_rows = tools_.variants.tile(experts_.tile(n_tokens)).n_tokens;
    count_->set(0, tools_.parts.handle(), routes_.buffer, offset, n_parts);
    place_->set(0, tools_.parts.handle(), routes_.buffer, offset, n_parts, narrow(experts_.n),
                narrow(tile_rows));
    const Int status = count_->run(experts_.n);
    return status == kOk ? place_->run(experts_.n) : status;
  }

 private:
  DeviceTools tools_;
  ExpertNumbers experts_;
  Place routes_;
  std::unique_ptr<BoundKernel> count_, place_;
};

class ExpertRoute : public DeviceOp {
 public:
  ExpertRoute(const DeviceTools& tools, const BoundOp& bound)
      : bound_(bound),
        x_(tools.place_of(bound.inputs[0])),
        y_(tools.place_of(bound.output)),
        kernel_(tools.programs.kernel("experts", PartsTable::options_of(tools), "choose_experts")) {
    const ExpertNumbers experts(bound);
    kernel_->set(0, narrow(experts.n), narrow(experts.n_used), bound.op.scale,
                 static_cast<uint32_t>(bound.op.normalizes_shares ? 1 : 0));
  }
  Int enqueue(const DeviceRun& run) override {
    kernel_->set(4, x_.buffer, x_.offset_floats() + run.set_offset, y_.buffer,
                 y_.offset_floats() + run.set_offset);
    const size_t n_tokens = run.n_rows(bound_);
    return n_tokens == 0 ? kOk : kernel_->run(n_tokens);
  }

 private:
  BoundOp bound_;
  Place x_, y_;
  std::unique_ptr<BoundKernel> kernel_;
};

class ExpertProduct : public DeviceOp {
 public:
  ExpertProduct(const DeviceTools& tools, const BoundOp& bound, int n_tokens, bool is_half,
                bool makes_table)
      : tools_(tools),
        bound_(bound),
        experts_(bound),
        x_(tools.place_of(bound.inputs[0])),
        y_(tools.place_of(bound.output)),
        weight_(tools.shelf.panels_of(bound.as<BoundProduct>().weight.matrix,
                                      {bound.first_column, bound.last_column}, experts_.n)) {
    TROIKA_ASSERT(bound.as<BoundProduct>().bias == nullptr);
    TROIKA_ASSERT(!is_half || fits_halves(weight_->form));
    const std::string options = tools.variants.options(weight_->form, is_half);
    input_.emplace(tools, *weight_, options, n_inputs(static_cast<size_t>(n_tokens)), is_half);
    if (makes_table) table_.emplace(tools, bound, n_tokens);
    for (const Tile::Size size : {Tile::kMany, Tile::kSome, Tile::kOne}) {
      bind_tile(size, options + " -DOF_EXPERTS=1");
    }
  }
  Int enqueue(const DeviceRun& run) override {
    const size_t n_tokens = run.n_rows(bound_);
    if (n_tokens == 0) return kOk;
    if (table_) {
      if (const Int status = table_->enqueue(run, n_tokens); status != kOk) return status;
    }
    FloatInput::Place x = {x_.buffer, x_.offset_floats() + run.set_offset};
    if (const Int status = input_->enqueue(n_inputs(n_tokens), &x); status != kOk) return status;
    const Tile::Size size = experts_.tile(n_tokens);
    BoundKernel& kernel = *kernels_[size];
    kernel.set(9, x.x, x.x_offset, x.of_groups, y_.buffer, y_.offset_floats() + run.set_offset,
               uint32_t{0}, narrow(n_tokens * experts_.n_used));
    kernel.set(19, tools_.parts.handle());
    const Variants& variants = tools_.variants;
    const Tile& tile = variants.tile(size);
    const size_t n_tiles = experts_.most_tiles(n_tokens, tile.n_tokens);
    const size_t rows = variants.piece_rows() * tile.n_pieces;
    const size_t n_1 = (static_cast<size_t>(bound_.n_columns()) + rows - 1) / rows;
    const size_t split = variants.split(weight_->form);
    if (split == 1) return kernel.run(n_tiles, n_1);
    return kernel.run_groups(n_tiles, n_1, Variants::kPiecesTogether, split);
  }

 private:
  // Counts rows of the input: one for each token, or one for each part.
  size_t n_inputs(size_t n_tokens) const {
    return bound_.op.takes_parts ? n_tokens * experts_.n_used : n_tokens;
  }
  void bind_tile(Tile::Size size, const std::string& options) {
    const auto handle = [](const auto& memory) -> Buffer {
      return memory != nullptr ? memory->handle() : nullptr;
    };
    const Buffer no_bias = nullptr;
    kernels_[size] = tools_.programs.kernel("product", options, tools_.variants.tile(size).kernel);
    kernels_[size]->set(0, handle(weight_->levels), handle(weight_->scales),
                        handle(weight_->minima), no_bias, narrow(weight_->n_inputs()),
                        static_cast<uint32_t>(bound_.first_column),
                        static_cast<uint32_t>(bound_.last_column), uint32_t{0},
                        static_cast<uint32_t>(bound_.output_width));
    kernels_[size]->set(16, narrow(experts_.n), narrow(experts_.n_used),
                        static_cast<uint32_t>(bound_.op.takes_parts ? 1 : 0));
  }

  DeviceTools tools_;
  BoundOp bound_;
  ExpertNumbers experts_;
  Place x_, y_;
  std::shared_ptr<const DevicePanels> weight_;
  std::optional<FloatInput> input_;
  std::optional<PartsTable> table_;
  std::unique_ptr<BoundKernel> kernels_[Tile::kSizes];
};

class ExpertSum : public DeviceOp {
 public:
  ExpertSum(const DeviceTools& tools, const BoundOp& bound, int n_tokens, bool makes_table)
      : tools_(tools),
        bound_(bound),
        experts_(bound),
        parts_(tools.place_of(bound.inputs[0])),
        routes_(tools.place_of(bound.inputs[1])),
        y_(tools.place_of(bound.output)),
        kernel_(tools.programs.kernel("experts", PartsTable::options_of(tools), "sum_parts")) {
    if (makes_table) table_.emplace(tools, bound, n_tokens);
    kernel_->set(0, static_cast<uint32_t>(bound.output_width), narrow(experts_.n_used),
                 narrow(experts_.n));
  }
  Int enqueue(const DeviceRun& run) override {
    const size_t n_tokens = run.n_rows(bound_);
    if (n_tokens == 0) return kOk;
    if (table_) {
      if (const Int status = table_->enqueue(run, n_tokens); status != kOk) return status;
    }
    kernel_->set(3, tools_.parts.handle(), parts_.buffer, parts_.offset_floats() + run.set_offset,
                 routes_.buffer, routes_.offset_floats() + run.set_offset, y_.buffer,
                 y_.offset_floats() + run.set_offset, narrow(n_tokens * experts_.n_used));
    const size_t stretch = tools_.device->entry().is_cpu ? kElementsOfCores : kElementsOfOthers;
    return kernel_->run((static_cast<size_t>(bound_.output_width) + stretch - 1) / stretch,
                        n_tokens);
  }

 private:
  DeviceTools tools_;
  BoundOp bound_;
  ExpertNumbers experts_;
  Place parts_, routes_, y_;
  std::optional<PartsTable> table_;
  std::unique_ptr<BoundKernel> kernel_;
};

}  // namespace

size_t parts_table_bytes(size_t n_tokens, size_t n_experts, size_t n_used) {
  const size_t n_parts = n_tokens * n_used;
  // The most tiles have one part each.
  return (1 + n_experts + 2 * n_parts + 3 * n_parts) * sizeof(uint32_t);
}

std::unique_ptr<DeviceOp> make_expert_op(const DeviceTools& tools, const BoundOp& bound,
                                         int n_tokens, bool is_half, bool makes_table) {
  switch (bound.op.kind) {
    case OpKind::kRoute:
      return std::make_unique<ExpertRoute>(tools, bound);
    case OpKind::kExpertLinear:
      return std::make_unique<ExpertProduct>(tools, bound, n_tokens, is_half, makes_table);
    default:
      TROIKA_ASSERT(bound.op.kind == OpKind::kExpertSum);
      return std::make_unique<ExpertSum>(tools, bound, n_tokens, makes_table);
  }
}

}  // namespace troika::lanes::opencl
