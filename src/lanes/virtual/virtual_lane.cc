#include "lanes/virtual/virtual_lane.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "lanes/virtual/timed_task.h"

namespace troika::lanes {
namespace {

class VirtualExecutable : public Executable {
 public:
  VirtualExecutable(int n_tokens, const Subgraph& subgraph, const weights::Store* weights,
                    const TaskCost& cost)
      : Executable(n_tokens),
        subgraph(subgraph),
        weights(weights),
        blueprint(*subgraph.blueprint),
        cost(cost) {
    if (const Range heads = subgraph.slice.heads; !heads.is_all()) {
      n_kv_heads = heads.within(blueprint.n_kv_heads).size();
      n_heads = blueprint.n_heads / blueprint.n_kv_heads * n_kv_heads;
    }
    for (const model::Op& op : subgraph.ops) {
      if (op.kind == model::OpKind::kAttention) windows.push_back(op.window);
    }
    // Who builds may drop them, and an executable is costed again for fewer rows only on a GPU,
    // which has no arrangements.
    this->subgraph.arrangements = {};
  }
  Subgraph subgraph;
  const weights::Store* weights;  // null: each weight takes the lane's weight_bytes
  const model::Blueprint& blueprint;
  plan::Phase phase = plan::Phase::kStep;
  int block = -1;
  int n_heads = blueprint.n_heads;  // counts heads of attention
  int n_kv_heads = blueprint.n_kv_heads;
  TaskCost cost;                       // the cost of all ops but attention
  std::vector<int> windows;            // the window of each attention; 0: it sees everything
  TaskCost part_cost;                  // like `cost`, for one part of a block that runs in parts
  std::unique_ptr<Executable> values;  // null: nothing is computed
};

// Adds the cost of an op to that of its task. The ops of a subgraph are one task. An NPU starts
// them as one graph; elsewhere each op is started. The sum lets computing and reading of different
// ops overlap, so it is a little too low.
void add(TaskCost& sum, const TaskCost& op, bool is_one_graph) {
  sum.fixed_us = is_one_graph ? std::max(sum.fixed_us, op.fixed_us) : sum.fixed_us + op.fixed_us;
  sum.compute_us += op.compute_us;
  sum.bytes += op.bytes;
}

// Counts queries, and the positions that each of them sees.
struct Seen {
  int64_t rows = 0;
  int64_t positions = 0;
};

// Returns what queries see. A graph of the NPU has all its rows, and every position that any of
// them sees: no mask spares work there. On other processors the present rows see different numbers
// of positions; their mean has the same operations.
Seen seen_on(Processor processor, int n_built_rows, const Run& run, int window) {
  size_t n_positions = 0, most = 0;
  for (const cache::VisibleSlots& row : run.visible) {
    const size_t n = row.within(window).size();
    n_positions += n;
    most = std::max(most, n);
  }
  const size_t n_rows = run.visible.size();
  if (n_rows == 0 || n_positions == 0) return {};
  if (processor == Processor::kNpu) return {n_built_rows, static_cast<int64_t>(most)};
  return {static_cast<int64_t>(n_rows), static_cast<int64_t>((n_positions + n_rows - 1) / n_rows)};
}

LaneInfo describe(const CostModel& model, const VirtualLaneOptions& options) {
  LaneInfo info;
  info.name = processor_name(options.processor);
  switch (options.processor) {
    case Processor::kCpu:
    case Processor::kGpu:
      info.capabilities = kVector;
      break;
    case Processor::kNpu:
      info.capabilities = kVector | kInt8Matrix;
      info.memory_limit_bytes =
          static_cast<size_t>(model.phone().npu.memory_limit_gb * kBytesPerGb);
      break;
  }
  info.queue_depth = options.queue_depth;
  return info;
}

}  // namespace

VirtualLane::VirtualLane(VirtualMachine& machine, const CostModel& model,
                         const VirtualLaneOptions& options)
    : machine_(machine),
      step_law_{&model, options.arithmetic, options.has_square_shapes, 0},
      prompt_law_{&model, model.arithmetic(options.processor, plan::Phase::kPrompt),
                  options.has_square_shapes, 1},
      options_(options),
      info_(describe(model, options)),
      index_(static_cast<int>(machine.lanes().size())) {
  if (options.prompts != nullptr) {
    prompt_law_ = {options.prompts,
                   options.prompts->arithmetic(options.processor, plan::Phase::kPrompt),
                   options.prompts_have_square_shapes, 1};
  }
  machine.add_lane(this);
  machine.set_queue_depth(index_, options.queue_depth);
}

// Returns a product of some rows with `outputs` rows of the op's weight, as this lane computes it.
Product VirtualLane::product_of(const Subgraph& subgraph, const model::Op& op, plan::Shape shape,
                                int64_t rows, int64_t outputs) const {
  const Law& law = law_of(shape);
  const model::Weight& weight = subgraph.blueprint->weights[static_cast<size_t>(op.weight)];
  Product product{rows, weight.row_length, outputs, law.arithmetic};
  product.has_group_scales = options_.has_group_scales;
  product.has_square_shape =
      law.has_square_shapes && rows > 1 && arrangement_index(subgraph, op, shape) == 0;
  return product;
}

// Costs a product of experts. A token uses some of the experts; several tokens use more of them,
// each for fewer rows. It assumes that every choice is equally likely and independent of the
// others.
TaskCost VirtualLane::expert_cost(const Subgraph& subgraph, const model::Op& op, plan::Shape shape,
                                  int n_tokens, double weight_bytes) const {
  const model::Blueprint& blueprint = *subgraph.blueprint;
  const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
  const double n_experts = blueprint.n_experts;
  const double n_choices = static_cast<double>(n_tokens) * blueprint.n_experts_used;
  const double share_used = static_cast<double>(blueprint.n_experts_used) / n_experts;
  const double n_touched = n_experts * (1.0 - std::pow(1.0 - share_used, n_tokens));
  const int64_t n_rows = std::max<int64_t>(1, std::llround(n_choices / n_touched));
  Product product = product_of(subgraph, op, shape, n_rows, weight.n_rows / blueprint.n_experts);
  product.weight_bytes = weight_bytes;
  TaskCost cost = law_of(shape).model->product(options_.processor, product);
  if (options_.processor != Processor::kNpu) cost.fixed_us *= n_touched;
  cost.compute_us *= n_touched;
  cost.bytes *= n_touched;
  return cost;
}

// Costs the parts of products with outliers. An extraction looks through the input once and takes
// out what exceeds the scale. A shadow product multiplies those channels, in floats, for each
// weight. A sum reads two results and writes one.
TaskCost VirtualLane::shadow_cost(const Subgraph& subgraph, plan::Shape shape) const {
  const CostModel& model = *law_of(shape).model;
  const int n_tokens = shape.n_rows;
  TaskCost sum;
  const model::Blueprint& blueprint = *subgraph.blueprint;
  const bool is_sum = subgraph.role == Role::kSum;
  const auto add_pointwise = [&](double floats) {
    add(sum, model.pointwise(options_.processor, floats * n_tokens * kFloatBytes), false);
  };
  if (!is_sum) {
    add_pointwise(blueprint.values[static_cast<size_t>(subgraph.ops.front().inputs[0])].width);
  }
  for (const model::Op& op : subgraph.ops) {
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
    if (is_sum) {
      add_pointwise(3.0 * weight.n_rows);
      continue;
    }
    Product product{n_tokens, std::min(options_.n_outlier_channels, weight.row_length),
                    weight.n_rows, Arithmetic::kFp16};
    product.weight_bytes = kFloatBytes;
    add(sum, model.product(options_.processor, product), false);
  }
  return sum;
}

// Names the shapes in which an NPU takes the rows of an input: as a square, or one below the other.
std::span<const char* const> VirtualLane::arrangements(plan::Shape shape) const {
  static constexpr const char* kOfNpu[] = {"square", "n x 1"};
  if (options_.processor != Processor::kNpu || !law_of(shape).has_square_shapes) return {};
  if (shape.n_rows == 1) return {};
  return kOfNpu;
}

TaskCost VirtualLane::op_cost(const Subgraph& subgraph, size_t index, plan::Shape shape,
                              const weights::Store* weights) const {
  const Law& law = law_of(shape);
  const model::Op& op = subgraph.ops[index];
  const int n_tokens = subgraph.slice.tokens.within(shape.n_rows).size();
  const Range columns = subgraph.slice.columns_of(index);
  const model::Blueprint& blueprint = *subgraph.blueprint;
  const bool is_experts = op.kind == model::OpKind::kExpertLinear;
  if (op.kind == model::OpKind::kLinear || is_experts) {
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
    double weight_bytes = options_.weight_bytes;
    if (weights != nullptr) {
      const weights::Matrix& matrix = weights->matrix(op.weight);
      weight_bytes = static_cast<double>(matrix.row_bytes) / matrix.row_length;
    }
    if (is_experts) return expert_cost(subgraph, op, shape, n_tokens, weight_bytes);
    Product product =
        product_of(subgraph, op, shape, n_tokens, columns.within(weight.n_rows).size());
    product.weight_bytes = weight_bytes;
    return law.model->product(options_.processor, product);
  }
  double floats = 0.0;
  const auto add_value = [&](model::ValueId id) {
    if (id == model::kNone) return;
    floats += columns.within(blueprint.values[static_cast<size_t>(id)].width).size();
  };
  for (const model::ValueId input : op.inputs) add_value(input);
  add_value(op.output);
  return law.model->pointwise(options_.processor, floats * n_tokens * kFloatBytes);
}

TaskCost VirtualLane::fixed_cost(const Subgraph& subgraph, plan::Shape shape,
                                 const weights::Store* weights) const {
  if (is_of_heads(subgraph.role)) return {};  // the cost of heads depends on the run
  if (subgraph.role != Role::kWhole) return shadow_cost(subgraph, shape);
  TaskCost sum;
  const Slice& slice = subgraph.slice;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const model::Op& op = subgraph.ops[i];
    if (op.kind == model::OpKind::kAttention) continue;
    if (slice.columns_of(i).size() == 0 || slice.tokens.within(shape.n_rows).size() == 0) continue;
    add(sum, op_cost(subgraph, i, shape, weights), options_.processor == Processor::kNpu);
  }
  return sum;
}

std::unique_ptr<Executable> VirtualLane::make_timed(const Subgraph& subgraph, plan::Shape shape,
                                                    const weights::Store* weights) const {
  TROIKA_ASSERT(subgraph.blueprint != nullptr && shape.n_rows > 0);
  auto made = std::make_unique<VirtualExecutable>(shape.n_rows, subgraph, weights,
                                                  fixed_cost(subgraph, shape, weights));
  made->phase = shape.phase;
  made->block = subgraph.block();
  if (options_.forms != nullptr && shape.phase == plan::Phase::kPrompt) {
    made->part_cost =
        fixed_cost(subgraph, {plan::Phase::kStep, options_.forms->part_rows}, weights);
  }
  return made;
}

std::unique_ptr<Executable> VirtualLane::build(const Subgraph& subgraph, plan::Shape shape,
                                               const weights::Store& weights,
                                               const Buffers& buffers) {
  std::unique_ptr<Executable> timed = make_timed(subgraph, shape, &weights);
  // The lane that computes values computes whole products only.
  if (options_.values != nullptr && subgraph.role == Role::kWhole) {
    lanes::Subgraph for_values = subgraph;
    for_values.arrangements = {};  // the arrangements are this lane's, not those of the lane behind
    static_cast<VirtualExecutable&>(*timed).values =
        options_.values->build(for_values, shape, weights, buffers);
  }
  return timed;
}

bool VirtualLane::runs_in_parts(const Executable& executable) const {
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  return options_.forms != nullptr && built.phase == plan::Phase::kPrompt &&
         options_.forms->holds_for(built.block);
}

const VirtualLane::Law& VirtualLane::law_of(const Executable& executable) const {
  if (runs_in_parts(executable)) return step_law_;
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  return law_of(plan::Shape{built.phase, built.n_tokens()});
}

// An executable costs what it was built for, however many of its rows are used. Kernels of a GPU
// take any shape (H §4.1.1), so there only present rows count. Attention costs by present rows and
// positions everywhere.
TaskCost VirtualLane::cost(const Executable& executable, const Run& run) const {
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  if (is_of_heads(built.subgraph.role)) return sparse_cost(executable, run);
  TaskCost sum = built.cost;
  const int n_present = built.subgraph.is_head() ? run.n_outputs : run.n_tokens;
  if (options_.processor == Processor::kGpu && n_present > 0 && n_present < built.n_tokens()) {
    sum = fixed_cost(built.subgraph, {built.phase, n_present}, built.weights);
  }
  if (runs_in_parts(executable)) {
    const int n_parts = (run.n_tokens + options_.forms->part_rows - 1) / options_.forms->part_rows;
    sum = {n_parts * built.part_cost.fixed_us, n_parts * built.part_cost.compute_us,
           n_parts * built.part_cost.bytes};
  }
  const CostModel& model = *law_of(executable).model;
  for (const int window : built.windows) {
    const Seen seen = seen_on(options_.processor, built.n_tokens(), run, window);
    if (seen.rows == 0 || seen.positions == 0) return sum;
    add(sum,
        model.attention(options_.processor, seen.rows, seen.positions, built.n_heads,
                        built.blueprint.head_dim, built.n_kv_heads),
        options_.processor == Processor::kNpu);
  }
  return sum;
}

TaskCost VirtualLane::sparse_cost(const Executable& executable, const Run& run) const {
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  const CostModel& model = *law_of(executable).model;
  const SparseHeads& sparse = built.subgraph.sparse;
  const Seen seen = seen_on(options_.processor, built.n_tokens(), run, 0);
  if (seen.rows == 0) return {};
  const int64_t head_dim = built.blueprint.head_dim;
  const auto n_heads = static_cast<int64_t>(sparse.heads.size());
  switch (built.subgraph.role) {
    case Role::kEstimate: {
      const int64_t n = options_.processor == Processor::kNpu ? sparse.n_built : n_heads;
      return model.estimate(options_.processor, seen.rows, seen.positions, n, head_dim,
                            sparse.block);
    }
    case Role::kSelect:
      return model.select(options_.processor, seen.rows, seen.positions, n_heads, head_dim,
                          sparse.block);
    default:
      return model.exact(options_.processor, seen.rows, seen.positions, n_heads, head_dim,
                         sparse.share, sparse.block);
  }
}

void VirtualLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  if (const auto* timed = dynamic_cast<const TimedTask*>(&executable)) {
    const TaskCost cost = timed->cost(run);
    const bool is_empty = cost.fixed_us <= 0.0 && cost.compute_us <= 0.0 && cost.bytes <= 0.0;
    if (is_empty && options_.queue_depth == 1) {
      completion.finished(Status::kDone);
      return;
    }
    const int software = run.phase == plan::Phase::kPrompt ? 1 : 0;
    machine_.start(index_, cost, Status::kDone, completion, software);
    return;
  }
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  Status status = Status::kDone;
  if (built.values != nullptr && options_.values != nullptr) {
    Ended ended;
    options_.values->submit(*built.values, run, ended);
    TROIKA_ASSERT(ended.status != Status::kPending);
    status = ended.status;
  }
  machine_.start(index_, cost(executable, run), status, completion, law_of(executable).software);
}

}  // namespace troika::lanes
