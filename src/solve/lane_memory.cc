#include "solve/lane_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "base/error.h"
#include "schedule/cut/plan_cuts.h"

namespace troika::solve {
namespace {

constexpr std::string_view kShadow = "shadow";  // names the outliers of products

// Returns the shapes of all executables of a subgraph.
std::vector<plan::Shape> shapes_of(const plan::Plan& plan, const lanes::Subgraph& subgraph) {
  if (!subgraph.is_head()) return plan.body_shapes();
  std::vector<plan::Shape> shapes;
  for (const int n : plan.output_shapes) shapes.push_back({plan::Phase::kStep, n});
  return shapes;
}

// Returns the lane that the first matching rule names; -1: none matches.
int ruled_lane(const std::vector<plan::Placement>& rules, const lanes::Subgraph& subgraph,
               plan::Shape shape) {
  for (const plan::Placement& rule : rules) {
    if (!rule.subgraph.empty() && rule.subgraph != subgraph.name) continue;
    if (rule.holds_for(shape, subgraph.block())) return rule.lane;
  }
  return -1;
}

}  // namespace

size_t weight_bytes(const lanes::Subgraph& subgraph, const weights::Store& weights) {
  size_t bytes = 0;
  for (const model::Op& op : subgraph.ops) {
    if (op.kind != model::OpKind::kLinear && op.kind != model::OpKind::kExpertLinear) continue;
    bytes += weights.matrix(op.weight).bytes();
  }
  return bytes;
}

LaneMemory::LaneMemory(const std::vector<plan::PlannedLane>& lanes, const WeightCopies& copies)
    : copies_(&copies) {
  for (const plan::PlannedLane& lane : lanes) lanes_.push_back({lane.memory_limit, 0, {}});
}

bool LaneMemory::has_room(int lane, std::span<const int> copies) const {
  const Lane& asked = lanes_[static_cast<size_t>(lane)];
  uint64_t wanted = 0;
  for (const int copy : copies) {
    if (!asked.has(copy)) wanted += copies_->bytes(copy);
  }
  return wanted <= asked.limit - std::min(asked.limit, asked.bytes);
}

void LaneMemory::hold(int lane, std::span<const int> copies) {
  TROIKA_ASSERT(has_room(lane, copies));
  Lane& holder = lanes_[static_cast<size_t>(lane)];
  for (const int copy : copies) {
    if (holder.has(copy)) continue;
    const auto at = static_cast<size_t>(copy);
    if (at >= holder.holds.size()) holder.holds.resize(at + 1, 0);
    holder.holds[at] = 1;
    holder.bytes += copies_->bytes(copy);
  }
}

std::vector<size_t> held_by_lanes(const model::Blueprint& blueprint, const weights::Store& weights,
                                  const plan::Plan& plan) {
  WeightCopies copies(weights, plan.lanes, plan.prefill, plan.activations);
  std::vector<plan::PlannedLane> unlimited = plan.lanes;
  for (plan::PlannedLane& lane : unlimited) lane.memory_limit = plan::PlannedLane::kNoLimit;
  LaneMemory memory(unlimited, copies);
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint, plan.splits)) {
    for (const plan::Shape shape : shapes_of(plan, subgraph)) {
      schedule::RangeCut parts = schedule::range_cut_of(plan, subgraph, shape);
      if (parts.empty()) {
        parts.push_back({.lane = plan.lane_of(subgraph.name, shape, subgraph.block())});
      }
      for (const schedule::LaneRanges& part : parts) {
        const plan::Shape built = {shape.phase, part.tokens.within(shape.n_rows).size()};
        memory.hold(part.lane, copies.of(part.lane, subgraph, built));
      }
    }
  }
  std::vector<size_t> held;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    held.push_back(memory.bytes(static_cast<int>(lane)));
  }
  return held;
}

std::vector<std::string> broken_rules(const model::Blueprint& blueprint, const plan::Plan& plan,
                                      const std::vector<plan::Placement>& rules) {
  struct Kept {
    std::string kind;
    int lane = 0;
    int n_asked = 0, n_kept = 0;  // count subgraphs
  };
  std::vector<Kept> all;
  int other_than_heads = -1;  // the lane of a rule for attention that lanes of heads precede
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint, plan.splits)) {
    // A lane counts as keeping a subgraph only if it runs it in all shapes that it is asked for.
    std::vector<char> is_asked(plan.lanes.size(), 0), is_kept(plan.lanes.size(), 1);
    for (const plan::Shape shape : shapes_of(plan, subgraph)) {
      const int lane = ruled_lane(rules, subgraph, shape);
      if (lane < 0) continue;
      TROIKA_ASSERT(static_cast<size_t>(lane) < plan.lanes.size());
      const auto at = static_cast<size_t>(lane);
      is_asked[at] = 1;
      if (plan.lane_of(subgraph.name, shape, subgraph.block()) != lane) is_kept[at] = 0;
    }
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      if (is_asked[lane] == 0) continue;
      if (subgraph.is_dynamic() && plan.attention.has_head_lanes()) {
        if (is_kept[lane] == 0) other_than_heads = static_cast<int>(lane);
        continue;
      }
      auto kept = std::find_if(all.begin(), all.end(), [&](const Kept& k) {
        return k.kind == subgraph.name && k.lane == static_cast<int>(lane);
      });
      if (kept == all.end()) kept = all.insert(kept, {subgraph.name, static_cast<int>(lane)});
      ++kept->n_asked;
      kept->n_kept += is_kept[lane];
    }
  }
  std::vector<std::string> sentences;
  if (other_than_heads >= 0) {
    sentences.push_back(fmt::format(
        "‹place› has no say in where attention runs, which lane {} was asked to: ‹attention-lanes› "
        "decides, and generation attends on the lane of the exact part, {}.",
        other_than_heads, plan.attention.head_lanes.back()));
  }
  for (const Kept& kept : all) {
    if (kept.n_kept == kept.n_asked) continue;
    const plan::PlannedLane& lane = plan.lanes[static_cast<size_t>(kept.lane)];
    if (lane.memory_limit == plan::PlannedLane::kNoLimit) {
      sentences.push_back(fmt::format(
          "Lane {} ({}) was asked to run '{}' and does so in {} of {} blocks; another lane runs "
          "the others.",
          kept.lane, lane.kind, kept.kind, kept.n_kept, kept.n_asked));
      continue;
    }
    sentences.push_back(fmt::format(
        "Lane {} ({}) may hold {} of weights: it runs '{}' in {} of {} blocks, and another "
        "lane runs the others.",
        kept.lane, lane.kind, bytes_text(lane.memory_limit), kept.kind, kept.n_kept, kept.n_asked));
  }
  return sentences;
}

bool meets_executable(const model::Blueprint& blueprint, const plan::Plan& plan,
                      const plan::Placement& rule) {
  if (rule.subgraph == kShadow) return true;
  const auto subgraphs = schedule::cut_into_subgraphs(blueprint, plan.splits);
  return std::any_of(subgraphs.begin(), subgraphs.end(), [&](const lanes::Subgraph& subgraph) {
    const std::vector<plan::Shape> shapes = shapes_of(plan, subgraph);
    return std::any_of(shapes.begin(), shapes.end(),
                       [&](plan::Shape shape) { return ruled_lane({rule}, subgraph, shape) >= 0; });
  });
}

}  // namespace troika::solve
