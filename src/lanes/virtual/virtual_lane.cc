#include "lanes/virtual/virtual_lane.h"

#include <algorithm>

#include "base/error.h"

namespace troika::lanes {
namespace {

constexpr double kFloatBytes = 4.0;
constexpr double kBytesPerGb = 1e9;

class VirtualExecutable : public Executable {
 public:
  VirtualExecutable(int n_tokens, const Subgraph& subgraph, const TaskCost& cost)
      : Executable(n_tokens), blueprint(*subgraph.blueprint), cost(cost) {
    for (const model::Op& op : subgraph.ops) {
      if (op.kind == model::OpKind::kAttention) ++n_attention;
    }
  }
  const model::Blueprint& blueprint;
  TaskCost cost;  // of all ops but attention
  int n_attention = 0;
};

// Ops of one subgraph are one task. An NPU starts them as one graph; elsewhere each op is started.
// Computing and reading of different ops overlap in the sum, which is a little too kind.
void add(TaskCost& sum, const TaskCost& op, bool is_one_graph) {
  sum.fixed_us = is_one_graph ? std::max(sum.fixed_us, op.fixed_us) : sum.fixed_us + op.fixed_us;
  sum.compute_us += op.compute_us;
  sum.bytes += op.bytes;
}

LaneInfo describe(const CostModel& model, const VirtualLaneOptions& options) {
  LaneInfo info;
  switch (options.processor) {
    case Processor::kCpu:
      info.name = "cpu";
      info.capabilities = kVector;
      break;
    case Processor::kGpu:
      info.name = "gpu";
      info.capabilities = kVector;
      break;
    case Processor::kNpu:
      info.name = "npu";
      info.capabilities = kVector | kInt8Matrix;
      info.memory_limit_bytes =
          static_cast<size_t>(model.phone().npu.memory_limit_gb * kBytesPerGb);
      break;
  }
  return info;
}

}  // namespace

VirtualLane::VirtualLane(VirtualMachine& machine, const CostModel& model,
                         const VirtualLaneOptions& options)
    : machine_(machine),
      model_(model),
      options_(options),
      info_(describe(model, options)),
      index_(static_cast<int>(machine.lanes().size())) {
  machine.add_lane(this);
}

TaskCost VirtualLane::op_cost(const model::Blueprint& blueprint, const model::Op& op,
                              int n_tokens) const {
  if (op.kind == model::OpKind::kLinear) {
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
    Product product{n_tokens, weight.row_length, weight.n_rows, options_.arithmetic};
    product.weight_bytes = options_.weight_bytes;
    return model_.product(options_.processor, product);
  }
  double floats = 0.0;
  for (const model::ValueId input : op.inputs) {
    if (input != model::kNone) floats += blueprint.values[static_cast<size_t>(input)].width;
  }
  if (op.output != model::kNone) floats += blueprint.values[static_cast<size_t>(op.output)].width;
  return model_.pointwise(options_.processor, floats * n_tokens * kFloatBytes);
}

std::unique_ptr<Executable> VirtualLane::make(const Subgraph& subgraph, int n_tokens) const {
  TROIKA_ASSERT(subgraph.blueprint != nullptr && n_tokens > 0);
  TaskCost sum;
  for (const model::Op& op : subgraph.ops) {
    if (op.kind == model::OpKind::kAttention) continue;
    add(sum, op_cost(*subgraph.blueprint, op, n_tokens), options_.processor == Processor::kNpu);
  }
  return std::make_unique<VirtualExecutable>(n_tokens, subgraph, sum);
}

// An executable takes as long as it was built for, however many of its rows are used; attention
// goes by the rows and positions present.
TaskCost VirtualLane::cost(const Executable& executable, const Run& run) const {
  const auto& built = static_cast<const VirtualExecutable&>(executable);
  TaskCost sum = built.cost;
  if (built.n_attention == 0) return sum;
  size_t n_positions = 0;
  for (const cache::VisibleSlots& row : run.visible) {
    n_positions += row.past.size() + row.own.size();
  }
  const size_t n_rows = run.visible.size();
  if (n_rows == 0 || n_positions == 0) return sum;
  // Rows see different numbers of positions; the mean has the same operations.
  const auto mean = static_cast<int64_t>((n_positions + n_rows - 1) / n_rows);
  const TaskCost attention =
      model_.attention(options_.processor, static_cast<int64_t>(n_rows), mean,
                       built.blueprint.n_heads, built.blueprint.head_dim);
  for (int i = 0; i < built.n_attention; ++i) {
    add(sum, attention, options_.processor == Processor::kNpu);
  }
  return sum;
}

void VirtualLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  machine_.start(index_, cost(executable, run), Status::kDone, completion);
}

}  // namespace troika::lanes
