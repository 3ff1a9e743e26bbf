#include "schedule/graphs.h"

#include "base/error.h"

namespace troika::schedule {
namespace {

bool starts_subgraph(const model::Op& op, const model::Op& before) {
  return op.is_dynamic() || before.is_dynamic() || op.kind == model::OpKind::kSelect ||
         op.layer != before.layer;
}

bool is_head(const lanes::Subgraph& subgraph) {
  const model::ValueId output = subgraph.ops.front().output;
  return subgraph.blueprint->values[static_cast<size_t>(output)].per_output;
}

// What a person calls it, from its place around the attention of its block.
const char* name_of(const lanes::Subgraph& subgraph) {
  const std::span<const model::Op> ops = subgraph.ops;
  if (subgraph.is_dynamic()) return "attention";
  if (ops.front().kind == model::OpKind::kEmbed) return "embed";
  if (is_head(subgraph)) return "head";
  const model::Op* first = subgraph.blueprint->ops.data();
  return &ops.front() > first && (&ops.front())[-1].is_dynamic() ? "ffn" : "qkv";
}

constexpr const char* kWeightNames[] = {
    "attn_qkv",    "attn_q",        "attn_k",   "attn_v",       "attn_output",
    "ffn_gate",    "ffn_up",        "ffn_down", "ffn_gate_inp", "ffn_gate_exps",
    "ffn_up_exps", "ffn_down_exps", "output",   "token_embd"};

}  // namespace

const char* op_name(const model::Blueprint& blueprint, const model::Op& op) {
  if (op.kind != model::OpKind::kLinear && op.kind != model::OpKind::kExpertLinear) {
    return model::op_kind_name(op.kind);
  }
  const std::string& name = blueprint.weights[static_cast<size_t>(op.weight)].name;
  for (const char* known : kWeightNames) {
    const std::string ending = std::string(known) + ".weight";
    if (name == ending || name.ends_with("." + ending)) return known;
  }
  return model::op_kind_name(op.kind);
}

namespace {

const TaskList& smallest_holding(const std::vector<TaskList>& lists, int n_rows) {
  for (const TaskList& list : lists) {
    if (n_rows <= list.n_rows) return list;
  }
  TROIKA_ASSERT(false);
  return lists.back();
}

}  // namespace

std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint) {
  std::vector<lanes::Subgraph> subgraphs;
  const std::span<const model::Op> ops = blueprint.ops;
  size_t begin = 0;
  for (size_t i = 1; i <= ops.size(); ++i) {
    if (i < ops.size() && !starts_subgraph(ops[i], ops[i - 1])) continue;
    subgraphs.push_back({&blueprint, ops.subspan(begin, i - begin)});
    subgraphs.back().name = name_of(subgraphs.back());
    begin = i;
  }
  return subgraphs;
}

namespace {

std::vector<plan::ProductLayout> layouts_of(const plan::Plan& plan, int lane) {
  std::vector<plan::ProductLayout> layouts;
  for (const plan::ProductLayout& layout : plan.layouts) {
    if (layout.lane == lane) layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace

Graphs::Graphs(const model::Blueprint& blueprint, const plan::Plan& plan,
               const lanes::Machine& machine, const weights::Store& weights,
               const GraphOptions& options)
    : blueprint_(blueprint),
      buffers_(blueprint, plan.shapes.back(), plan.output_shapes.back(), options.has_values) {
  const std::vector<lanes::Subgraph> subgraphs = cut_into_subgraphs(blueprint);
  std::vector<std::vector<plan::ProductLayout>> layouts;
  for (size_t lane = 0; lane < machine.lanes().size(); ++lane) {
    layouts.push_back(layouts_of(plan, static_cast<int>(lane)));
  }
  const auto build = [&](const std::vector<int>& shapes, bool for_head) {
    std::vector<TaskList> lists;
    for (const int n_rows : shapes) {
      TaskList list{n_rows, {}};
      for (const lanes::Subgraph& subgraph : subgraphs) {
        if (is_head(subgraph) != for_head) continue;
        const int lane = plan.lane_of(subgraph.name, n_rows, subgraph.block());
        lanes::Lane& worker = *machine.lanes()[static_cast<size_t>(lane)];
        const auto add = [&](lanes::Subgraph part) {
          part.layouts = layouts[static_cast<size_t>(lane)];
          list.tasks.push_back(
              {lane, worker.build(part, n_rows, weights, buffers_), part.name, subgraph.block()});
        };
        if (!options.is_op_by_op) {
          add(subgraph);
          continue;
        }
        for (const model::Op& op : subgraph.ops) {
          add({&blueprint, {&op, 1}, op_name(blueprint, op)});
        }
      }
      lists.push_back(std::move(list));
    }
    return lists;
  };
  bodies_ = build(plan.shapes, false);
  heads_ = build(plan.output_shapes, true);
}

const TaskList& Graphs::body(int n_tokens) const { return smallest_holding(bodies_, n_tokens); }

const TaskList& Graphs::head(int n_outputs) const { return smallest_holding(heads_, n_outputs); }

}  // namespace troika::schedule
