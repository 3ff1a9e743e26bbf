#include "schedule/cut/plan_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "plan/device.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

using lanes::Range;
using plan::TensorCut;

constexpr int kGranule = lanes::Slice::kRowGranularity;

Range range_of(const plan::Span& span) { return {span.begin, span.end}; }

// Returns ranges of tokens, one behind the other; the last one reaches to the end.
std::vector<Range> ranges_of(const plan::Shares& tokens) {
  std::vector<Range> ranges;
  int begin = 0;
  for (const plan::LaneShare& share : tokens) {
    ranges.push_back({begin, begin + share.n});
    begin += share.n;
  }
  ranges.back().end = Range::kEnd;
  return ranges;
}

RangeCut by_heads(const plan::Shares& heads, int n_heads) {
  RangeCut parts;
  const std::vector<plan::Span> spans = plan::divide(n_heads, heads, 1);
  for (size_t i = 0; i < heads.size(); ++i) {
    parts.push_back({.lane = heads[i].lane, .heads = range_of(spans[i])});
  }
  return parts;
}

// Returns the ranges of an op's rows, or nothing where a lane would have too few of them.
std::vector<plan::Span> spans_of_rows(int n_rows, const plan::Shares& rows) {
  std::vector<plan::Span> spans = plan::divide(n_rows, rows, kGranule);
  const bool is_cut = std::all_of(spans.begin(), spans.end(),
                                  [](const plan::Span& span) { return span.size() >= kGranule; });
  if (!is_cut && rows.size() > 1) spans.clear();
  return spans;
}

// Divides the products of one subgraph, each by its own cut or not at all. Together the parts are a
// grid of lanes and ranges of tokens.
class Grid {
 public:
  Grid(const lanes::Subgraph& subgraph, int lane) : subgraph_(subgraph), lane_(lane) {}

  // Adds a product; without a cut (null) it is whole on the lane of the subgraph.
  void add(const model::Op& op, const TensorCut* cut) {
    const int n_rows = n_rows_of(op);
    // A product that is too small is not cut.
    if (cut != nullptr && !cut->rows.empty() && !divides_rows(n_rows, cut->rows)) cut = nullptr;
    products_.push_back({n_rows, cut});
    note_lane(lane_);
    if (cut == nullptr) return;
    for (const plan::Shares* shares : {&cut->rows, &cut->tokens}) {
      for (const plan::LaneShare& share : *shares) note_lane(share.lane);
    }
    if (cut->tokens.empty()) return;
    for (const Range& range : ranges_of(cut->tokens)) borders_.push_back(range.begin);
  }

  // Returns the parts; none where nothing is cut.
  RangeCut take() {
    const bool is_cut = std::any_of(products_.begin(), products_.end(),
                                    [](const Product& product) { return product.cut != nullptr; });
    if (!is_cut) return {};
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    RangeCut parts;
    for (size_t t = 0; t < borders_.size(); ++t) {
      const Range tokens = {borders_[t], t + 1 < borders_.size() ? borders_[t + 1] : Range::kEnd};
      for (const int lane : lanes_) {
        LaneRanges part{.lane = lane, .tokens = tokens};
        for (const Product& product : products_) {
          part.rows.push_back(rows_of(product, lane, tokens.begin));
        }
        parts.push_back(std::move(part));
      }
    }
    return parts;
  }

 private:
  struct Product {
    int n_rows;
    const TensorCut* cut;
  };

  int n_rows_of(const model::Op& op) const {
    return subgraph_.blueprint->weights[static_cast<size_t>(op.weight)].n_rows;
  }

  void note_lane(int lane) {
    if (std::find(lanes_.begin(), lanes_.end(), lane) == lanes_.end()) lanes_.push_back(lane);
  }

  // Returns the rows of a product that a lane computes, for the tokens from first_token to the next
  // border.
  Range rows_of(const Product& product, int lane, int first_token) const {
    const Range all = {0, product.n_rows}, none = {0, 0};
    if (product.cut == nullptr) return lane == lane_ ? all : none;
    const plan::Shares& tokens = product.cut->tokens;
    const plan::Shares& rows = product.cut->rows;
    if (!tokens.empty()) {
      const std::vector<Range> ranges = ranges_of(tokens);
      size_t i = 0;
      while (first_token >= ranges[i].end) ++i;
      if (i > 0 || rows.empty()) return tokens[i].lane == lane ? all : none;
    }
    const std::vector<plan::Span> spans = spans_of_rows(product.n_rows, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].lane == lane) return range_of(spans[i]);
    }
    return none;
  }

  const lanes::Subgraph& subgraph_;
  int lane_;
  std::vector<Product> products_;
  std::vector<int> lanes_;
  std::vector<int> borders_ = {0};
};

void check_classes(const plan::Plan& plan, const TensorCut& cut) {
  if (cut.mixes_classes) return;
  int first = model::kNone;
  for (const plan::Shares* shares : {&cut.rows, &cut.heads}) {
    for (const plan::LaneShare& share : *shares) {
      if (first == model::kNone) first = share.lane;
      if (class_of(plan, share.lane, cut.phase) == class_of(plan, first, cut.phase)) continue;
      throw Error(fmt::format(
          "The cut {} divides an op between lanes of the kinds {} and {}, which compute in "
          "different numerics classes, so that results depend on where it is cut. Give the cut "
          "\"mixes_classes\": true in the plan if that is wanted, or leave it out.",
          cut_text(cut), processor_text(plan.lanes[static_cast<size_t>(first)]),
          processor_text(plan.lanes[static_cast<size_t>(share.lane)])));
    }
  }
}

// Refuses cuts by tokens with a lane that must have all tokens of an executable, or none.
void check_tokens(const plan::Plan& plan, const std::string& what, const plan::Shares& tokens,
                  plan::Phase phase) {
  for (const plan::LaneShare& share : tokens) {
    if (may_divide_tokens(plan, share.lane, phase)) continue;
    throw Error(fmt::format(
        "{} divides the tokens of {}s, and lane {} is of the kind {}, whose floats are not those "
        "of cores, so that results would depend on which tokens it has. Compute prompts in int8 "
        "(‹int8› token) and divide those, divide rows, or leave it out.",
        what, plan::phase_name(phase), share.lane,
        processor_text(plan.lanes[static_cast<size_t>(share.lane)])));
  }
}

void check_tokens(const plan::Plan& plan, const TensorCut& cut) {
  if (cut.tokens.empty()) return;
  const std::string_view name = cut.subgraph.empty() ? "ffn" : std::string_view(cut.subgraph);
  // All shapes of a phase are alike here.
  std::optional<plan::Phase> checked;
  for (const plan::Shape& shape : plan.body_shapes()) {
    if (checked == shape.phase || !cut.holds_for(name, shape)) continue;
    check_tokens(plan, "The cut " + cut_text(cut), cut.tokens, shape.phase);
    checked = shape.phase;
  }
}

void check_rows(const model::Blueprint& blueprint, const TensorCut& cut, const model::Op& op) {
  const int n_rows = blueprint.weights[static_cast<size_t>(op.weight)].n_rows;
  if (cut.op.empty() || cut.rows.empty() || divides_rows(n_rows, cut.rows)) return;
  throw Error(fmt::format(
      "The cut {} leaves a lane fewer than {} of the {} rows of '{}'. Give each lane a larger "
      "share, or leave the cut out.",
      cut_text(cut), kGranule, n_rows, cut.op));
}

void check_heads(const model::Blueprint& blueprint, const TensorCut& cut) {
  if (cut.heads.empty()) return;
  for (const plan::Span& span : plan::divide(blueprint.n_kv_heads, cut.heads, 1)) {
    if (span.size() > 0) continue;
    throw Error(fmt::format(
        "The cut {} leaves a lane none of the {} heads of keys and values. Give each lane a larger "
        "share, or leave the cut out.",
        cut_text(cut), blueprint.n_kv_heads));
  }
}

}  // namespace

bool divides_rows(int n_rows, const plan::Shares& rows) {
  return !spans_of_rows(n_rows, rows).empty();
}

std::vector<const TensorCut*> cuts_for(std::span<const TensorCut> cuts,
                                       const lanes::Subgraph& subgraph, plan::Shape shape) {
  std::vector<const TensorCut*> holding;
  for (const TensorCut& cut : cuts) {
    if (cut.holds_for(subgraph.name, shape)) holding.push_back(&cut);
  }
  return holding;
}

const TensorCut* cut_of(std::span<const TensorCut* const> holding,
                        const model::Blueprint& blueprint, const model::Op& op) {
  const std::string_view name = op_name(blueprint, op);
  const auto at = std::find_if(holding.begin(), holding.end(), [&](const TensorCut* cut) {
    return cut->op.empty() || cut->op == name;
  });
  return at == holding.end() ? nullptr : *at;
}

RangeCut range_cut_of_tokens(const plan::Shares& tokens) {
  RangeCut parts;
  const std::vector<Range> ranges = ranges_of(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    parts.push_back({.lane = tokens[i].lane, .tokens = ranges[i]});
  }
  return parts;
}

RangeCut range_cut_of(std::span<const TensorCut> cuts, const lanes::Subgraph& subgraph,
                      plan::Shape shape, int home) {
  const std::vector<const TensorCut*> holding = cuts_for(cuts, subgraph, shape);
  if (holding.empty()) return {};
  const model::Blueprint& blueprint = *subgraph.blueprint;
  if (subgraph.is_dynamic()) {
    for (const TensorCut* cut : holding) {
      if (!cut->heads.empty()) return by_heads(cut->heads, blueprint.n_kv_heads);
    }
    return {};
  }
  // If one cut by tokens alone holds for all products, its ranges go through the whole subgraph.
  const TensorCut* const first = cut_of(holding, blueprint, subgraph.ops.front());
  bool is_whole = first != nullptr && first->op.empty() && first->rows.empty();
  Grid grid(subgraph, home);
  for (const model::Op& op : subgraph.ops) {
    if (!is_product(op)) continue;
    const TensorCut* const cut = cut_of(holding, blueprint, op);
    is_whole = is_whole && cut == first;
    grid.add(op, cut);
  }
  return is_whole ? range_cut_of_tokens(first->tokens) : grid.take();
}

bool is_divided_by_lengths(const lanes::Subgraph& subgraph) {
  return !subgraph.is_dynamic() && !subgraph.is_head() &&
         std::any_of(subgraph.ops.begin(), subgraph.ops.end(), is_product);
}

RangeCut range_cut_of(const plan::Plan& plan, const lanes::Subgraph& subgraph, plan::Shape shape) {
  if (plan.cuts.empty() && plan.lengths.empty()) return {};
  const int home = plan.lane_of(subgraph.name, shape, subgraph.block());
  RangeCut parts = range_cut_of(plan.cuts, subgraph, shape, home);
  const plan::LengthCut* const length = plan.length_of(shape);
  if (!parts.empty() || length == nullptr || !is_divided_by_lengths(subgraph)) return parts;
  return range_cut_of_tokens(length->tokens);
}

std::string processor_text(const plan::PlannedLane& lane) {
  return lane.is_device() ? fmt::format("{}:{}", lane.kind, lane.device) : lane.kind;
}

std::string class_of(const plan::Plan& plan, int lane_index, std::optional<plan::Phase> phase) {
  const plan::PlannedLane& lane = plan.lanes[static_cast<size_t>(lane_index)];
  const plan::DeviceKind* const device = plan::device_kind(lane.kind);
  if (device == nullptr) return kHostClass;
  const bool is_of_prompts = phase == plan::Phase::kPrompt || !device->takes_steps;
  const bool has_exact_sums =
      device->has_exact_int8 && is_of_prompts && plan.prefill == plan::Prefill::kInt8;
  return has_exact_sums ? kHostClass : processor_text(lane);
}

bool share_class(const plan::Plan& plan, int lane, int other, std::optional<plan::Phase> phase) {
  return class_of(plan, lane, phase) == class_of(plan, other, phase);
}

bool may_divide_tokens(const plan::Plan& plan, int lane, plan::Phase phase) {
  return class_of(plan, lane, phase) == kHostClass;
}

void check_cuts(const plan::Plan& plan, const model::Blueprint& blueprint) {
  for (const plan::LengthCut& length : plan.lengths) {
    check_tokens(plan, "The length " + plan::shares_text(length.tokens), length.tokens,
                 plan::Phase::kPrompt);
  }
  const std::vector<lanes::Subgraph> subgraphs = cut_into_subgraphs(blueprint, plan.splits);
  for (const TensorCut& cut : plan.cuts) {
    check_classes(plan, cut);
    check_tokens(plan, cut);
    check_heads(blueprint, cut);
    bool is_there = false;
    for (const lanes::Subgraph& subgraph : subgraphs) {
      if (!cut.subgraph.empty() && cut.subgraph != subgraph.name) continue;
      is_there = is_there || cut.op.empty();
      for (const model::Op& op : subgraph.ops) {
        if (!is_product(op) || cut.op != op_name(blueprint, op)) continue;
        is_there = true;
        check_rows(blueprint, cut, op);
      }
    }
    if (is_there) continue;
    throw Error(fmt::format(
        "The cut {} is of nothing in this model. 'troika plan MODEL --explain --ops' shows its "
        "subgraphs and ops; correct the cut, or leave it out.",
        cut_text(cut)));
  }
}

}  // namespace troika::schedule
