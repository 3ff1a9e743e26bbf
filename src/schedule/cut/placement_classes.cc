#include "schedule/cut/placement_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/device.h"
#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

using plan::Shape;

// The lanes of a subgraph's ops in one shape: those of one class stand for each other, so a cut
// names its first lane.
struct OpLanes {
  Shape shape;
  std::vector<int> lanes;  // has the lane of each op
  bool mixes_classes = false;
};

// Returns the first lane of those that a cut gives an op to.
int first_lane(const plan::TensorCut& cut) {
  for (const plan::Shares* shares : {&cut.rows, &cut.tokens, &cut.heads}) {
    if (!shares->empty()) return shares->front().lane;
  }
  return 0;
}

OpLanes lanes_in(const plan::Plan& plan, const lanes::Subgraph& subgraph, Shape shape) {
  const plan::Placement* const rule = plan.rule_of(subgraph.name, shape, subgraph.block());
  const plan::LengthCut* const length = plan.length_of(shape);
  OpLanes found;
  found.shape = shape;
  found.mixes_classes = rule != nullptr && rule->mixes_classes;
  const std::vector<const plan::TensorCut*> holding = cuts_for(plan.cuts, subgraph, shape);
  bool is_cut = false;
  for (const model::Op& op : subgraph.ops) {
    found.lanes.push_back(rule == nullptr ? 0 : rule->lane);
    if (!is_product(op) && !subgraph.is_dynamic()) continue;
    const plan::TensorCut* const cut = cut_of(holding, *subgraph.blueprint, op);
    if (cut == nullptr || (subgraph.is_dynamic() && cut->heads.empty())) continue;
    is_cut = true;
    found.lanes.back() = first_lane(*cut);
    found.mixes_classes = found.mixes_classes || cut->mixes_classes;
  }
  if (!is_cut && length != nullptr && is_divided_by_lengths(subgraph)) {
    std::fill(found.lanes.begin(), found.lanes.end(), length->tokens.front().lane);
  }
  return found;
}

// Returns the numerics class of an op on a lane. A vendor's runtime only multiplies: the cores of
// its lane compute the other ops.
std::string class_of_op(const plan::Plan& plan, const model::Op& op, int lane, plan::Phase phase) {
  const plan::DeviceKind* const device =
      plan::device_kind(plan.lanes[static_cast<size_t>(lane)].kind);
  const bool is_of_cores = device != nullptr && device->only_multiplies && !is_product(op);
  return is_of_cores ? kHostClass : class_of(plan, lane, phase);
}

// Throws Error where two shapes of a subgraph compute in different classes.
void compare(const plan::Plan& plan, const lanes::Subgraph& subgraph, const OpLanes& a,
             const OpLanes& b) {
  for (size_t i = 0; i < a.lanes.size(); ++i) {
    const model::Op& op = subgraph.ops[i];
    if (class_of_op(plan, op, a.lanes[i], a.shape.phase) ==
        class_of_op(plan, op, b.lanes[i], b.shape.phase)) {
      continue;
    }
    const auto processor = [&](int lane) {
      return processor_text(plan.lanes[static_cast<size_t>(lane)]);
    };
    throw Error(fmt::format(
        "In executables of {} {} a lane of the kind {} computes '{}', in those of {} one of the "
        "kind {}: they compute in different numerics classes, so that results depend on how many "
        "tokens go together. Let ‹place› put it on one of them for every number of tokens{}, or "
        "give the rule \"mixes_classes\": true in the plan if that is wanted.",
        a.shape.n_rows, subgraph.is_head() ? "outputs" : "tokens", processor(a.lanes[i]),
        subgraph.name, b.shape.n_rows, processor(b.lanes[i]),
        plan.has_one_class() || subgraph.is_head()
            ? std::string()
            : fmt::format(", as in {}@{}={}", subgraph.name, plan::phase_name(b.shape.phase),
                          b.lanes[i])));
  }
}

}  // namespace

void check_placements(const plan::Plan& plan, const model::Blueprint& blueprint) {
  if (plan.lanes.size() < 2) return;
  std::vector<Shape> of_outputs;
  for (const int n : plan.output_shapes) of_outputs.push_back({plan::Phase::kStep, n});
  const std::vector<Shape> of_bodies = plan.body_shapes();
  for (const lanes::Subgraph& subgraph : cut_into_subgraphs(blueprint, plan.splits)) {
    // Those that compute alike are alike among each other, so each is compared with the first.
    std::vector<OpLanes> firsts;
    for (const Shape& shape : subgraph.is_head() ? of_outputs : of_bodies) {
      OpLanes found = lanes_in(plan, subgraph, shape);
      if (found.mixes_classes) continue;
      const auto first = std::find_if(firsts.begin(), firsts.end(), [&](const OpLanes& other) {
        return plan.has_one_class() || other.shape.phase == shape.phase;
      });
      if (first == firsts.end()) {
        firsts.push_back(std::move(found));
      } else {
        compare(plan, subgraph, *first, found);
      }
    }
  }
}

}  // namespace troika::schedule
