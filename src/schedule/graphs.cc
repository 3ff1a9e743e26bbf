#include "schedule/graphs.h"

#include <algorithm>

#include "base/error.h"

namespace troika::schedule {
namespace {

// Of whole rows within a block; those of the head and of single heads belong to their products.
bool is_norm(const model::Op& op) {
  const bool is_any = op.kind == model::OpKind::kRmsNorm || op.kind == model::OpKind::kLayerNorm;
  return is_any && op.n_heads == 0 && op.layer != model::kNone;
}

bool starts_subgraph(const model::Op& op, const model::Op& before, bool is_cut_at_norms) {
  if (is_cut_at_norms && is_norm(op) != is_norm(before)) return true;
  return op.is_dynamic() || before.is_dynamic() || op.kind == model::OpKind::kSelect ||
         op.layer != before.layer;
}

bool is_head(const lanes::Subgraph& subgraph) {
  const model::ValueId output = subgraph.ops.front().output;
  return subgraph.blueprint->values[static_cast<size_t>(output)].per_output;
}

bool has_products(const lanes::Subgraph& subgraph) {
  return std::any_of(subgraph.ops.begin(), subgraph.ops.end(), [](const model::Op& op) {
    return op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear;
  });
}

// What people call them, from their place around the attention of their block.
void name_all(std::vector<lanes::Subgraph>& subgraphs, bool is_cut_at_norms) {
  int last_attention = -1;            // whose block it was in
  lanes::Subgraph* behind = nullptr;  // the first static one behind the attention of this block
  for (lanes::Subgraph& subgraph : subgraphs) {
    const model::Op& first = subgraph.ops.front();
    if (subgraph.is_dynamic()) {
      subgraph.name = "attention";
      last_attention = subgraph.block();
      behind = nullptr;
    } else if (first.kind == model::OpKind::kEmbed) {
      subgraph.name = "embed";
    } else if (is_head(subgraph)) {
      subgraph.name = "head";
    } else if (is_cut_at_norms && is_norm(first)) {
      subgraph.name = "norm";
    } else if (last_attention != subgraph.block()) {
      subgraph.name = "qkv";
    } else {
      // The projection stands apart where products follow behind a norm.
      subgraph.name = "ffn";
      if (behind != nullptr && has_products(subgraph)) behind->name = "out";
      if (behind == nullptr) behind = &subgraph;
    }
  }
}

double operations_of(const lanes::Subgraph& subgraph, int n_rows) {
  double operations = 0.0;
  if (subgraph.role != lanes::Role::kWhole && subgraph.role != lanes::Role::kProduct) {
    return n_rows;  // little beside products
  }
  const model::Blueprint& blueprint = *subgraph.blueprint;
  for (const model::Op& op : subgraph.ops) {
    const double width =
        op.output == model::kNone ? 0.0 : blueprint.values[static_cast<size_t>(op.output)].width;
    if (op.is_dynamic()) return 4.0 * width;
    if (op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear) {
      const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
      operations += 2.0 * n_rows * width * weight.row_length;
    } else {
      operations += n_rows * width;
    }
  }
  return operations;
}

int reading_lane(const lanes::Machine& machine) {
  const std::span<lanes::Lane* const> lanes = machine.lanes();
  const auto at = std::find_if(lanes.begin(), lanes.end(), [](const lanes::Lane* lane) {
    return (lane->info().capabilities & lanes::kRead) != 0;
  });
  TROIKA_ASSERT(at != lanes.end());
  return static_cast<int>(at - lanes.begin());
}

// Every op a piece.
std::vector<Piece> ops_of(const lanes::Subgraph& subgraph) {
  std::vector<Piece> pieces;
  for (const model::Op& op : subgraph.ops) {
    pieces.push_back(
        {{subgraph.blueprint, {&op, 1}, op_name(*subgraph.blueprint, op)}, PieceLane::kMain, {}});
    if (pieces.size() > 1) pieces.back().waits_for = {static_cast<int>(pieces.size()) - 2};
  }
  return pieces;
}

// What of a subgraph becomes a task of its own, and on which lane those beside run.
struct Pieces {
  std::vector<Piece> pieces;
  int shadow_lane;
};
Pieces pieces_of(const lanes::Subgraph& subgraph, int n_rows, int lane, const plan::Plan& plan,
                 const weights::Store& weights, const GraphOptions& options) {
  if (options.is_op_by_op) return {ops_of(subgraph), lane};
  Pieces whole = {{{subgraph, PieceLane::kMain, {}}}, lane};
  if (subgraph.is_dynamic() || n_rows <= plan::kMostDecodeTokens) return whole;
  const int here = weights.channels() == nullptr ? -1 : plan.shadow_lane(n_rows, subgraph.block());
  if (here >= 0 && here != lane) {
    ShadowCut cut;
    cut.keeps = [&](const model::Op& op) { return weights.channels_of(op.weight) != nullptr; };
    cut.has_extraction = true;
    cut.reads = [&](const model::Op& op) { return weights.channels_of(op.weight)->has_cold(); };
    return {cut_for_shadow(subgraph, cut), here};
  }
  const ShadowOptions& shadow = options.shadow;
  const bool has_shadow =
      shadow.lane >= 0 && shadow.lane != lane &&
      keeps_outliers(subgraph.block(), subgraph.blueprint->n_layers, shadow.prune_percent);
  return has_shadow ? Pieces{cut_for_shadow(subgraph), shadow.lane} : whole;
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

std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint,
                                                bool is_cut_at_norms) {
  std::vector<lanes::Subgraph> subgraphs;
  const std::span<const model::Op> ops = blueprint.ops;
  size_t begin = 0;
  for (size_t i = 1; i <= ops.size(); ++i) {
    if (i < ops.size() && !starts_subgraph(ops[i], ops[i - 1], is_cut_at_norms)) continue;
    subgraphs.push_back({&blueprint, ops.subspan(begin, i - begin)});
    begin = i;
  }
  name_all(subgraphs, is_cut_at_norms);
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
      buffers_(blueprint, plan.shapes.back(), plan.output_shapes.back(), options.has_values,
               plan.n_buffer_sets()) {
  if (weights.channels() != nullptr) {
    buffers_.add_shadow(*weights.channels(), plan.shapes.back());
  }
  const std::vector<lanes::Subgraph> subgraphs =
      cut_into_subgraphs(blueprint, plan.is_cut_at_norms);
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
        // Each piece waits for what it names among the pieces, else for the task before them all.
        const auto n_before = static_cast<int>(list.tasks.size());
        Pieces cut = pieces_of(subgraph, n_rows, lane, plan, weights, options);
        for (Piece& piece : cut.pieces) {
          const int piece_lane = piece.lane == PieceLane::kMain   ? lane
                                 : piece.lane == PieceLane::kRead ? reading_lane(machine)
                                                                  : cut.shadow_lane;
          piece.subgraph.layouts = layouts[static_cast<size_t>(piece_lane)];
          lanes::Lane& worker = *machine.lanes()[static_cast<size_t>(piece_lane)];
          Task task{piece_lane,
                    worker.build(piece.subgraph, n_rows, weights, buffers_),
                    piece.subgraph.name,
                    subgraph.block(),
                    {},
                    piece.subgraph.is_dynamic(),
                    operations_of(piece.subgraph, n_rows)};
          for (const int other : piece.waits_for) task.waits_for.push_back(n_before + other);
          if (task.waits_for.empty() && n_before > 0) task.waits_for = {n_before - 1};
          list.tasks.push_back(std::move(task));
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
