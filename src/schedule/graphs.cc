#include "schedule/graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "schedule/cut/placement_classes.h"
#include "schedule/cut/plan_cuts.h"
#include "schedule/ffn/hot_pieces.h"

namespace troika::schedule {
namespace {

// Says whether an op is a norm of whole rows within a block. Norms of the head and of single heads
// belong to their products.
bool is_norm(const model::Op& op) {
  const bool is_any = op.kind == model::OpKind::kRmsNorm || op.kind == model::OpKind::kLayerNorm;
  return is_any && op.n_heads == 0 && op.layer != model::kNone;
}

bool is_activation(const model::Op& op) {
  return op.kind == model::OpKind::kGate || op.kind == model::OpKind::kActivate;
}

bool starts_subgraph(const model::Op& op, const model::Op& before, plan::Splits splits) {
  if (splits.at_norms && is_norm(op) != is_norm(before)) return true;
  if (splits.at_activations && is_activation(op) != is_activation(before)) return true;
  return op.is_dynamic() || before.is_dynamic() || op.kind == model::OpKind::kSelect ||
         op.layer != before.layer;
}

bool has_products(const lanes::Subgraph& subgraph) {
  return std::any_of(subgraph.ops.begin(), subgraph.ops.end(), [](const model::Op& op) {
    return op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear;
  });
}

// Names subgraphs as people call them, by their place around the attention of their block.
void name_all(std::vector<lanes::Subgraph>& subgraphs, plan::Splits splits) {
  int last_attention = -1;            // the block of the last attention
  int last_activation = -1;           // the block of the last activation
  lanes::Subgraph* behind = nullptr;  // the first static one behind the attention of this block
  for (lanes::Subgraph& subgraph : subgraphs) {
    const model::Op& first = subgraph.ops.front();
    if (subgraph.is_dynamic()) {
      subgraph.name = "attention";
      last_attention = subgraph.block();
      behind = nullptr;
    } else if (first.kind == model::OpKind::kEmbed) {
      subgraph.name = "embed";
    } else if (subgraph.is_head()) {
      subgraph.name = "head";
    } else if (splits.at_norms && is_norm(first)) {
      subgraph.name = "norm";
    } else if (splits.at_activations && is_activation(first)) {
      subgraph.name = "activation";
      last_activation = subgraph.block();
    } else if (last_activation == subgraph.block() && has_products(subgraph)) {
      subgraph.name = "down";
    } else if (last_attention != subgraph.block()) {
      subgraph.name = "qkv";
    } else {
      // The projection of attention stands apart where products follow behind a norm.
      subgraph.name = "ffn";
      if (behind != nullptr && has_products(subgraph)) behind->name = "out";
      if (behind == nullptr) behind = &subgraph;
    }
  }
}

double operations_of(const lanes::Subgraph& subgraph, int most_rows) {
  double operations = 0.0;
  const lanes::Slice& slice = subgraph.slice;
  const int n_rows = slice.tokens.within(most_rows).size();
  if (subgraph.role != lanes::Role::kWhole && subgraph.role != lanes::Role::kProduct) {
    return n_rows;  // parts without a product take little time beside those with one
  }
  const model::Blueprint& blueprint = *subgraph.blueprint;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const model::Op& op = subgraph.ops[i];
    const int whole =
        op.output == model::kNone ? 0 : blueprint.values[static_cast<size_t>(op.output)].width;
    const double width = slice.columns_of(i).within(whole).size();
    if (op.is_dynamic()) {
      const double n_heads = blueprint.n_kv_heads;
      return 4.0 * width * slice.heads.within(blueprint.n_kv_heads).size() / n_heads;
    }
    if (op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear) {
      const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
      operations += 2.0 * n_rows * width * weight.row_length;
    } else {
      operations += n_rows * width;
    }
  }
  return operations;
}

// Returns a number that is equal for pieces that take the same time. Estimates are alike where as
// many heads are launched together, and other parts where heads keep as many positions. Heads are
// not told apart by their place in the cut, because the same place means other heads in another
// block.
int kind_of(const Piece& piece, size_t index) {
  constexpr double kShares = 1000.0;
  constexpr int kBehindAllCuts = 1 << 20;
  const lanes::SparseHeads& heads = piece.subgraph.sparse;
  if (!lanes::is_of_heads(piece.subgraph.role)) return static_cast<int>(index);
  if (piece.subgraph.role == lanes::Role::kEstimate) return kBehindAllCuts + heads.n_built;
  return 2 * kBehindAllCuts + static_cast<int>(std::lround(kShares * heads.share));
}

// Returns the lane that reads; -1: there is none.
int reading_lane(const lanes::Machine& machine) {
  const std::span<lanes::Lane* const> lanes = machine.lanes();
  const auto at = std::find_if(lanes.begin(), lanes.end(), [](const lanes::Lane* lane) {
    return (lane->info().capabilities & lanes::kRead) != 0;
  });
  return at == lanes.end() ? -1 : static_cast<int>(at - lanes.begin());
}

[[noreturn]] void refuse_both(const lanes::Subgraph& subgraph) {
  throw Error(fmt::format(
      "'{}' of prompts is divided between lanes by a cut, and ‹attention› query makes each of its "
      "heads tasks of their own. Leave one of them out, or cut attention of steps alone "
      "(attention@step=heads:...).",
      subgraph.name));
}

// Says how a subgraph is cut into tasks, and on which lanes they run.
Cut cut_of(const lanes::Subgraph& subgraph, plan::Shape shape, int lane, const plan::Plan& plan,
           const lanes::Machine& machine, const weights::Store& weights,
           const GraphOptions& options) {
  if (options.is_op_by_op) return {lane, OpByOp()};
  RangeCut parts =
      options.range_cut ? options.range_cut(subgraph, shape) : range_cut_of(plan, subgraph, shape);
  // Heads are tasks only where a layer sees everything: one that sees a window sees all positions
  // of the window.
  const bool is_of_heads = subgraph.is_dynamic() && shape.phase == plan::Phase::kPrompt &&
                           options.heads.is_on() && subgraph.ops.front().window == 0;
  if (is_of_heads && !parts.empty()) refuse_both(subgraph);
  if (!parts.empty()) return {lane, std::move(parts)};
  if (is_of_heads) return {lane, HeadCut{&options.heads}};
  if (subgraph.is_dynamic() || shape.phase == plan::Phase::kStep) return {lane};
  OutlierCut cut;
  const int here = weights.channels() == nullptr ? -1 : plan.shadow_lane(shape, subgraph.block());
  if (here >= 0 && here != lane) {
    cut.shadow_lane = here;
    cut.read_lane = reading_lane(machine);
    cut.keeps = [&](const model::Op& op) { return weights.channels_of(op.weight) != nullptr; };
    cut.has_extraction = true;
    cut.reads = [&](const model::Op& op) { return weights.channels_of(op.weight)->has_cold(); };
    return {lane, std::move(cut)};
  }
  const ShadowOptions& shadow = options.shadow;
  const bool has_shadow =
      shadow.lane >= 0 && shadow.lane != lane &&
      keeps_outliers(subgraph.block(), subgraph.blueprint->n_layers, shadow.prune_percent);
  if (!has_shadow) return {lane};
  cut.shadow_lane = shadow.lane;
  return {lane, std::move(cut)};
}

constexpr const char* kWeightNames[] = {"attn_qkv",
                                        "attn_q",
                                        "attn_k",
                                        "attn_v",
                                        "attn_output",
                                        "ffn_gate",
                                        "ffn_up",
                                        "ffn_down",
                                        "ffn_gate_inp",
                                        "ffn_gate_exps",
                                        "ffn_up_exps",
                                        "ffn_down_exps",
                                        "ffn_gate_inp_shexp",
                                        "ffn_gate_shexp",
                                        "ffn_up_shexp",
                                        "ffn_down_shexp",
                                        "output",
                                        "token_embd"};

}  // namespace

const char* op_name(const model::Blueprint& blueprint, const model::Op& op) {
  if (op.kind != model::OpKind::kLinear && op.kind != model::OpKind::kExpertLinear) {
    return model::op_kind_name(op.kind);
  }
  // Takes the word before the last: "ffn_down" of "blk.3.ffn_down.weight".
  constexpr std::string_view kEnding = ".weight";
  std::string_view name = blueprint.weights[static_cast<size_t>(op.weight)].name;
  if (name.ends_with(kEnding)) {
    name.remove_suffix(kEnding.size());
    name.remove_prefix(name.rfind('.') + 1);  // npos + 1 is 0
    for (const char* known : kWeightNames) {
      if (name == known) return known;
    }
  }
  return model::op_kind_name(op.kind);
}

std::vector<lanes::Subgraph> cut_into_subgraphs(const model::Blueprint& blueprint,
                                                plan::Splits splits) {
  std::vector<lanes::Subgraph> subgraphs;
  const std::span<const model::Op> ops = blueprint.ops;
  size_t begin = 0;
  for (size_t i = 1; i <= ops.size(); ++i) {
    if (i < ops.size() && !starts_subgraph(ops[i], ops[i - 1], splits)) continue;
    subgraphs.push_back({&blueprint, ops.subspan(begin, i - begin)});
    begin = i;
  }
  name_all(subgraphs, splits);
  return subgraphs;
}

namespace {

void check_lane(const Piece& piece, const lanes::Machine& machine) {
  const size_t n_lanes = machine.lanes().size();
  if (piece.lane >= 0 && static_cast<size_t>(piece.lane) < n_lanes) return;
  throw Error(fmt::format(
      "A piece of '{}' is placed on lane {}, but the lanes are 0 to {}. Place it on one of these, "
      "or use more ‹lanes›.",
      piece.subgraph.name, piece.lane, n_lanes - 1));
}

std::vector<plan::ProductArrangement> arrangements_of(const plan::Plan& plan, int lane) {
  std::vector<plan::ProductArrangement> arrangements;
  for (const plan::ProductArrangement& arrangement : plan.arrangements) {
    if (arrangement.lane == lane) arrangements.push_back(arrangement);
  }
  return arrangements;
}

// Adds tasks in place of a feed-forward part, or before it. Returns whether that part stays.
bool add_ffn_tasks(const FfnTasks& ffn, int block, plan::Shape shape, const FfnPlace& place,
                   TaskList* list, std::vector<int>* ends) {
  std::vector<Task> tasks = ffn.in_place(block, shape, place);
  const bool stays = tasks.empty();
  if (stays) tasks = ffn.before(block, shape, place);
  for (Task& task : tasks) list->tasks.push_back(std::move(task));
  const int last = static_cast<int>(list->tasks.size()) - 1;
  if (!stays) *ends = {last};
  if (stays && last >= place.n_tasks) ends->push_back(last);
  return stays;
}

// Makes the lists of a graph's shapes.
class ListMaker {
 public:
  ListMaker(const model::Blueprint& blueprint, const plan::Plan& plan,
            const lanes::Machine& machine, const weights::Store& weights,
            const lanes::Buffers& buffers, const GraphOptions& options, LearnedTimes* times)
      : plan_(plan),
        machine_(machine),
        weights_(weights),
        buffers_(buffers),
        options_(options),
        times_(times),
        subgraphs_(cut_into_subgraphs(blueprint, plan.splits)) {
    for (size_t lane = 0; lane < machine.lanes().size(); ++lane) {
      arrangements_.push_back(arrangements_of(plan, static_cast<int>(lane)));
    }
  }

  // Makes the list of the head, or of everything before the head.
  TaskList make(const plan::Shape& shape, bool for_head) const {
    TaskList list{shape, {}};
    std::vector<int> ends;  // the last tasks of the subgraph before: the next one waits for them
    FfnPlace place;
    int block = -1;
    for (const lanes::Subgraph& subgraph : subgraphs_) {
      if (subgraph.is_head() != for_head) continue;
      if (subgraph.block() != std::exchange(block, subgraph.block())) {
        place.previous_begin = std::exchange(place.block_begin, ends);
      }
      if (options_.ffn != nullptr && std::string_view(subgraph.name) == "ffn") {
        place.n_tasks = static_cast<int>(list.tasks.size());
        place.ends = ends;
        if (!add_ffn_tasks(*options_.ffn, subgraph.block(), shape, place, &list, &ends)) continue;
      }
      add(subgraph, &list, &ends);
    }
    list.pass = pass_of(list.tasks);
    return list;
  }

 private:
  // Adds the pieces of a subgraph. A piece waits for the pieces that it names, or, if it names
  // none, for the end of the subgraph before.
  void add(const lanes::Subgraph& subgraph, TaskList* list, std::vector<int>* ends) const {
    const plan::Shape shape = list->shape;
    const int lane = plan_.lane_of(subgraph.name, shape, subgraph.block());
    const auto n_before = static_cast<int>(list->tasks.size());
    std::vector<Piece> pieces = pieces_of(subgraph, shape, lane);
    for (size_t i = 0; i < pieces.size(); ++i) {
      Piece& piece = pieces[i];
      check_lane(piece, machine_);
      piece.subgraph.arrangements = arrangements_[static_cast<size_t>(piece.lane)];
      lanes::Lane& worker = *machine_.lanes()[static_cast<size_t>(piece.lane)];
      Task task{piece.lane,
                worker.build(piece.subgraph, shape,
                             piece.weights != nullptr ? *piece.weights : weights_, buffers_),
                piece.subgraph.name,
                subgraph.block(),
                {},
                piece.subgraph.is_dynamic(),
                operations_of(piece.subgraph, shape.n_rows),
                times_->of(piece.subgraph.name, piece.lane, shape, kind_of(piece, i)),
                piece.subgraph.role};
      for (const int other : piece.waits_for) task.waits_for.push_back(n_before + other);
      if (task.waits_for.empty()) task.waits_for = *ends;
      list->tasks.push_back(std::move(task));
    }
    *ends = last_of(pieces);
    for (int& end : *ends) end += n_before;
  }

  std::vector<Piece> pieces_of(const lanes::Subgraph& subgraph, plan::Shape shape, int lane) const {
    const Cut cut = cut_of(subgraph, shape, lane, plan_, machine_, weights_, options_);
    // Prompts that are not computed as steps read whole matrices.
    const bool is_by_neuron =
        shape.phase == plan::Phase::kStep || plan_.prefill == plan::Prefill::kSame;
    if (weights_.hot() == nullptr || !is_by_neuron) return lower(subgraph, cut);
    std::vector<Piece> pieces = hot_pieces(subgraph, *weights_.hot(), lane, plan_.ffn.hot.lane);
    if (pieces.empty()) return lower(subgraph, cut);
    if (!std::holds_alternative<Undivided>(cut.by) ||
        plan_.lanes[static_cast<size_t>(lane)].is_device()) {
      throw Error(
          fmt::format("'{}' is computed by neuron, on one lane of cores, beside its hot neurons. "
                      "Leave out what divides it or places it elsewhere, or ‹neuron-hot›.",
                      subgraph.name));
    }
    return pieces;
  }

  const plan::Plan& plan_;
  const lanes::Machine& machine_;
  const weights::Store& weights_;
  const lanes::Buffers& buffers_;
  const GraphOptions& options_;
  LearnedTimes* times_;
  std::vector<lanes::Subgraph> subgraphs_;
  std::vector<std::vector<plan::ProductArrangement>> arrangements_;  // by lane
};

}  // namespace

Graphs::Graphs(const model::Blueprint& blueprint, const plan::Plan& plan,
               const lanes::Machine& machine, const weights::Store& weights,
               const GraphOptions& options)
    : blueprint_(blueprint),
      has_one_class_(plan.has_one_class()),
      buffers_(weights.hot() != nullptr ? weights.hot()->blueprint() : blueprint, plan.most_rows(),
               plan.output_shapes.back(), options.has_values, plan.n_buffer_sets(),
               lanes::owned_memory(machine)) {
  if (weights.channels() != nullptr) {
    buffers_.add_shadow(*weights.channels(), plan.most_rows());
  }
  if (options.heads.stores_apart) {
    buffers_.add_heads(blueprint.n_heads, plan.most_rows(), plan.context);
  }
  check_cuts(plan, blueprint);
  check_placements(plan, blueprint);
  const ListMaker lists(blueprint, plan, machine, weights, buffers_, options, &times_);
  for (const plan::Shape& shape : plan.body_shapes()) bodies_.push_back(lists.make(shape, false));
  for (TaskList& list : bodies_) {
    const plan::LengthCut* const length = plan.length_alone(list.shape);
    if (length != nullptr) list.least_of_length = length->least_tokens();
  }
  for (const int n : plan.output_shapes) {
    heads_.push_back(lists.make({plan::Phase::kStep, n}, true));
  }
}

const TaskList& Graphs::body(plan::Phase phase, int n_rows) const {
  const auto key = [&](const TaskList& list) {
    const int rank = list.least_of_length == 0 ? 1 : n_rows >= list.least_of_length ? 0 : 2;
    return std::pair(rank, list.shape.n_rows);
  };
  const TaskList* best = nullptr;
  for (const TaskList& list : bodies_) {
    if (list.shape.n_rows < n_rows || (list.shape.phase != phase && !has_one_class_)) continue;
    if (best == nullptr || key(list) < key(*best)) best = &list;
  }
  TROIKA_ASSERT(best != nullptr);
  return *best;
}

const TaskList& Graphs::head(int n_outputs) const {
  const auto at = std::find_if(heads_.begin(), heads_.end(), [&](const TaskList& list) {
    return list.shape.n_rows >= n_outputs;
  });
  TROIKA_ASSERT(at != heads_.end());
  return *at;
}

size_t Graphs::most_nodes() const {
  size_t most = 0;
  for (const auto* lists : {&bodies_, &heads_}) {
    for (const TaskList& list : *lists) most = std::max(most, list.tasks.size());
  }
  return most;
}

Node node_of(const Task& task) {
  Node node;
  node.lane = task.lane;
  node.executable = task.executable.get();
  node.name = task.name;
  node.block = task.block;
  node.waits_for = task.waits_for;
  node.is_dynamic = task.is_dynamic;
  node.operations = task.operations;
  node.time = task.time;
  node.role = task.role;
  return node;
}

Pass pass_of(std::span<const Task> tasks, int n_before) {
  std::vector<Node> nodes;
  for (const Task& task : tasks) {
    nodes.push_back(node_of(task));
    std::vector<int>& waits_for = nodes.back().waits_for;
    std::erase_if(waits_for, [&](int other) { return other < n_before; });
    for (int& other : waits_for) other -= n_before;
  }
  return Pass(std::move(nodes));
}

}  // namespace troika::schedule
