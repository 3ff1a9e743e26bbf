#include "solve/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "solve/assignment_search.h"

namespace troika::solve {
namespace {

// The subgraphs of one kind. They get one lane, as far as its memory goes.
struct Kind {
  std::string name;
  std::vector<size_t> subgraphs;  // indices, in the order of a pass
  size_t weight_bytes = 0;        // the weights of all subgraphs of the kind

  bool is_head() const { return name == "head"; }
};

using Assignment = std::vector<int>;  // a lane for each kind

// An assignment within the memory of the lanes.
struct Settled {
  std::vector<int> lanes;  // the lane of each subgraph
  LaneMemory memory;
  double us = 0.0;  // the time of a pass
};

// What one shape got.
struct Placed {
  ShapeChoice found;
  Settled settled;
};

bool is_larger(plan::Shape a, plan::Shape b) { return a.n_rows > b.n_rows; }

class Placer {
 public:
  Placer(const model::Blueprint& blueprint, const weights::Store& weights,
         const std::vector<plan::PlannedLane>& lanes, const TimeModel& times,
         const TimeModel& apart_times, const PlaceRequest& request)
      : n_lanes_(static_cast<int>(lanes.size())),
        times_(times),
        apart_times_(apart_times),
        request_(request),
        subgraphs_(schedule::cut_into_subgraphs(blueprint, request.splits)),
        weight_copies_(weights, lanes, request.prefill, request.activations),
        memory_(lanes, weight_copies_) {
    for (size_t i = 0; i < subgraphs_.size(); ++i) {
      auto kind = std::find_if(kinds_.begin(), kinds_.end(),
                               [&](const Kind& k) { return k.name == subgraphs_[i].name; });
      if (kind == kinds_.end()) kind = kinds_.insert(kinds_.end(), Kind{subgraphs_[i].name, {}, 0});
      kind->subgraphs.push_back(i);
      kind->weight_bytes += weight_bytes(subgraphs_[i], weights);
    }
    order_kinds();
  }

  PlacementChoice run() {
    // Large shapes come first: their rules are asked first, and they have the first choice of
    // memory.
    std::vector<plan::Shape> shapes = request_.shapes;
    std::stable_sort(shapes.begin(), shapes.end(), is_larger);
    std::vector<Placed> placed;
    for (const std::vector<plan::Shape>& alike : groups_of(shapes)) {
      for (Placed& one : place_alike(alike)) placed.push_back(std::move(one));
    }
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return is_larger(a.found.shape, b.found.shape);
    });
    PlacementChoice choice;
    for (const Placed& one : placed) {
      choice.shapes.push_back(one.found);
      add_rules(one.found.shape, one.settled.lanes, &choice.placements);
    }
    std::reverse(choice.shapes.begin(), choice.shapes.end());
    // These rules are for tasks that are of no kind: single ops, outliers.
    for (const plan::Placement& rule : request_.forced) choice.placements.push_back(rule);
    return choice;
  }

 private:
  // Returns the shapes in groups: results of one group must not depend on its shapes. One group has
  // all shapes where all lanes compute alike.
  std::vector<std::vector<plan::Shape>> groups_of(const std::vector<plan::Shape>& shapes) const {
    std::vector<std::vector<plan::Shape>> groups;
    for (const plan::Shape& shape : shapes) {
      const auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
        const bool is_apart = has_classes() && request_.has_rules_of_phases;
        return !is_apart || group.front().phase == shape.phase;
      });
      if (at != groups.end()) {
        at->push_back(shape);
      } else {
        groups.push_back({shape});
      }
    }
    return groups;
  }

  bool has_classes() const { return request_.class_of != nullptr; }

  bool mixes_classes(const std::vector<plan::Shape>& shapes) const {
    if (!has_classes()) return false;
    for (const plan::Shape& shape : shapes) {
      for (int lane = 1; lane < n_lanes_; ++lane) {
        if (class_of(lane, shape) != class_of(0, shape)) return true;
      }
    }
    return false;
  }
  std::string class_of(int lane, plan::Shape shape) const {
    return request_.class_of(lane, shape.phase);
  }

  // Places shapes whose results must be alike. Where lanes are of several classes, the first shape
  // that is placed decides the class of each subgraph. Each shape may be that one: the best is the
  // one with which all shapes together lose least of the time that each would take by itself.
  std::vector<Placed> place_alike(const std::vector<plan::Shape>& shapes) {
    const LaneMemory before = memory_;
    std::vector<std::vector<Placed>> ways;
    const size_t n_ways = mixes_classes(shapes) ? shapes.size() : 1;
    for (size_t i = 0; i < n_ways; ++i) {
      std::vector<plan::Shape> order = shapes;
      const auto first = order.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(order.begin(), first, first + 1);
      memory_ = before;
      ways.push_back(place_in_order(order, n_ways > 1));
    }
    const auto loss = [&](const std::vector<Placed>& way) {
      double sum = 0.0;
      for (const Placed& one : way) {
        const auto alone = std::find_if(ways.begin(), ways.end(), [&](const auto& other) {
          return other.front().found.shape == one.found.shape;
        });
        // Where there is one way only, it is taken.
        if (alone != ways.end()) sum += one.found.us / std::max(alone->front().found.us, 1e-9);
      }
      return sum;
    };
    const auto best = std::min_element(
        ways.begin(), ways.end(), [&](const auto& a, const auto& b) { return loss(a) < loss(b); });
    for (const Placed& one : *best) check_runs(one);
    memory_ = best->back().settled.memory;
    return *best;
  }

  // Refuses a shape that takes for ever wherever its subgraphs are.
  static void check_runs(const Placed& placed) {
    if (std::isfinite(placed.found.us)) return;
    const plan::Shape& shape = placed.found.shape;
    throw Error(fmt::format(
        "No placement can run passes of {} tokens (phase {}): of some op each lane that it may run "
        "on says that it cannot build it. Name another lane in ‹lanes›, for example one of cores, "
        "or leave out the rules of ‹place› for such ops.",
        shape.n_rows, plan::phase_name(shape.phase)));
  }

  std::vector<Placed> place_in_order(const std::vector<plan::Shape>& shapes, bool keeps_classes) {
    std::vector<Placed> placed;
    classes_.assign(subgraphs_.size(), {});
    for (const plan::Shape& shape : shapes) {
      measure(shape);
      const FoundAssignment best = search(shape);
      Placed one{{}, *settle(best.lanes, shape)};
      one.found.is_bounded = best.is_bounded;
      one.found.shape = shape;
      one.found.us = one.settled.us;
      for (size_t k = 0; k < kinds_.size(); ++k) one.found.lanes[kinds_[k].name] = best.lanes[k];
      for (int lane = 0; lane < n_lanes_; ++lane) {
        const auto single = settle(Assignment(kinds_.size(), lane), shape, /*by_rules=*/false);
        one.found.single_lane_us.push_back(single ? single->us : one.settled.us);
      }
      memory_ = one.settled.memory;
      if (keeps_classes) keep_classes(one.settled.lanes, shape);
      placed.push_back(std::move(one));
    }
    return placed;
  }

  // Makes the classes that subgraphs have in one shape those of the shapes behind it.
  void keep_classes(const std::vector<int>& lanes, plan::Shape shape) {
    for (const Kind& kind : kinds_) {
      if (may_mix(kind)) continue;
      for (const size_t i : kind.subgraphs) {
        if (classes_[i].empty()) classes_[i] = class_of(lanes[i], shape_for(kind, shape));
      }
    }
  }
  bool may_mix(const Kind& kind) const {
    return std::any_of(request_.forced.begin(), request_.forced.end(), [&](const auto& rule) {
      return rule.mixes_classes && (rule.subgraph.empty() || rule.subgraph == kind.name);
    });
  }
  bool has_class_of(size_t subgraph, int lane, plan::Shape shape) const {
    return classes_[subgraph].empty() || class_of(lane, shape) == classes_[subgraph];
  }

  // Orders kinds by arithmetic per block, so that what gains most from a fast lane is placed first.
  // The head comes last, because it is used once a pass.
  void order_kinds() {
    by_weight_.resize(kinds_.size());
    for (size_t k = 0; k < kinds_.size(); ++k) by_weight_[k] = k;
    const auto key = [&](size_t k) {
      const auto n_blocks = static_cast<double>(kinds_[k].subgraphs.size());
      return std::pair(!kinds_[k].is_head(),
                       static_cast<double>(kinds_[k].weight_bytes) / n_blocks);
    };
    std::stable_sort(by_weight_.begin(), by_weight_.end(),
                     [&](size_t a, size_t b) { return key(a) > key(b); });
  }

  // Returns the shape that a kind runs in. The head runs for one row, whatever the number of
  // tokens.
  static plan::Shape shape_for(const Kind& kind, plan::Shape shape) {
    return kind.is_head() ? plan::Shape() : shape;
  }

  void measure(plan::Shape shape) {
    const int context = std::max(shape.n_rows, shape.n_rows == 1 ? request_.decode_context : 0);
    us_.assign(static_cast<size_t>(n_lanes_), std::vector<double>(subgraphs_.size(), 0.0));
    copies_.assign(static_cast<size_t>(n_lanes_), std::vector<std::vector<int>>(subgraphs_.size()));
    apart_us_ = us_;
    for (int lane = 0; lane < n_lanes_; ++lane) {
      const auto at = static_cast<size_t>(lane);
      for (const Kind& kind : kinds_) {
        const plan::Shape built = shape_for(kind, shape);
        for (const size_t i : kind.subgraphs) {
          apart_us_[at][i] = apart_times_.task_us(lane, subgraphs_[i], built, context);
          copies_[at][i] = weight_copies_.of(lane, subgraphs_[i], built);
        }
        // Times of a kind that can never be on this lane as a whole may be dear, and none asks for
        // them.
        const bool is_asked = &times_ != &apart_times_ && has_room_for(kind, lane);
        for (const size_t i : kind.subgraphs) {
          us_[at][i] =
              is_asked ? times_.task_us(lane, subgraphs_[i], built, context) : apart_us_[at][i];
        }
      }
    }
  }
  // Says whether a lane has room for all subgraphs of a kind in the current shape.
  bool has_room_for(const Kind& kind, int lane) const {
    LaneMemory memory = memory_;
    for (const size_t i : kind.subgraphs) {
      if (!memory.has_room(lane, copies_of(lane, i))) return false;
      memory.hold(lane, copies_of(lane, i));
    }
    return true;
  }
  // Returns the copies of weights with which a lane runs a subgraph in the current shape.
  std::span<const int> copies_of(int lane, size_t subgraph) const {
    return copies_[static_cast<size_t>(lane)][subgraph];
  }
  // Returns the time of a subgraph whose kind `is_together` on the lane, or on several lanes.
  double task_us(int lane, size_t subgraph, bool is_together) const {
    return (is_together ? us_ : apart_us_)[static_cast<size_t>(lane)][subgraph];
  }

  double pass_us(const std::vector<int>& lanes) const {
    double us = 0.0;
    for (const Kind& kind : kinds_) {
      const bool is_together =
          std::all_of(kind.subgraphs.begin(), kind.subgraphs.end(),
                      [&](size_t i) { return lanes[i] == lanes[kind.subgraphs.front()]; });
      for (const size_t i : kind.subgraphs) us += task_us(lanes[i], i, is_together);
    }
    for (size_t i = 1; i < lanes.size(); ++i) us += times_.handover_us(lanes[i - 1], lanes[i]);
    return us;
  }

  // Returns the lane that rules of the user fix for a subgraph; -1: none does.
  int forced_lane(const Kind& kind, plan::Shape shape, int block) const {
    for (const plan::Placement& rule : request_.forced) {
      if (!rule.subgraph.empty() && rule.subgraph != kind.name) continue;
      if (rule.holds_for(shape_for(kind, shape), block)) return rule.lane;
    }
    return -1;
  }

  // Returns the lane that takes least time for a subgraph, of those that have room and, `by_class`,
  // the subgraph's class in this shape; -1: there is none. `before` is the lane of all subgraphs of
  // the kind that come first; kNone: there are none, kSeveral: they are on several lanes.
  int fastest_with_room(const LaneMemory& memory, size_t subgraph, plan::Shape shape, bool by_class,
                        int before) const {
    int best = -1;
    double best_us = 0.0;
    for (int lane = 0; lane < n_lanes_; ++lane) {
      if (!memory.has_room(lane, copies_of(lane, subgraph))) continue;
      if (by_class && !has_class_of(subgraph, lane, shape)) continue;
      const double us = task_us(lane, subgraph, before == kNone || before == lane);
      if (best >= 0 && us >= best_us) continue;
      best = lane;
      best_us = us;
    }
    return best;
  }

  // Keeps blocks of a kind on the wanted lane as far as its memory and its class go; the following
  // ones run on the next best lane. Returns nothing where the lanes have no memory for all of them.
  // Without `by_rules` neither the user's rules count, nor classes.
  std::optional<Settled> settle(const Assignment& wanted, plan::Shape shape,
                                bool by_rules = true) const {
    Settled settled{std::vector<int>(subgraphs_.size(), 0), memory_};
    for (const size_t k : by_weight_) {
      const plan::Shape built = shape_for(kinds_[k], shape);
      int before = kNone;
      for (const size_t i : kinds_[k].subgraphs) {
        const int forced = by_rules ? forced_lane(kinds_[k], shape, subgraphs_[i].block()) : -1;
        int lane = forced >= 0 ? forced : wanted[k];
        const bool may_run = forced >= 0 || !by_rules || has_class_of(i, lane, built);
        if (!may_run || !settled.memory.has_room(lane, copies_of(lane, i))) {
          lane = fastest_with_room(settled.memory, i, built, by_rules, before);
        }
        if (lane < 0) return std::nullopt;
        settled.memory.hold(lane, copies_of(lane, i));
        settled.lanes[i] = lane;
        before = before == kNone || before == lane ? lane : kSeveral;
      }
    }
    settled.us = pass_us(settled.lanes);
    return settled;
  }

  // Says whether a lane may run a kind: all of it, or what has the lane's class.
  bool may_run(const Kind& kind, int lane, plan::Shape shape) const {
    const int forced = forced_lane(kind, shape, plan::Placement::kAllBlocks - 1);
    if (forced >= 0) return lane == forced;
    return std::any_of(kind.subgraphs.begin(), kind.subgraphs.end(),
                       [&](size_t i) { return has_class_of(i, lane, shape_for(kind, shape)); });
  }

  // Rules that hold for all blocks of a kind leave no choice.
  FoundAssignment search(plan::Shape shape) const {
    std::vector<std::vector<int>> allowed;
    for (const Kind& kind : kinds_) {
      allowed.emplace_back();
      for (int lane = 0; lane < n_lanes_; ++lane) {
        if (may_run(kind, lane, shape)) allowed.back().push_back(lane);
      }
    }
    FoundAssignment best = find_assignment(allowed, [&](const Assignment& lanes) {
      const std::optional<Settled> settled = settle(lanes, shape);
      return settled ? std::optional(settled->us) : std::nullopt;
    });
    if (!best.lanes.empty()) return best;
    if (best.is_bounded) {
      throw Error(
          "None of the placements that were tried has memory for all weights, and so many lanes "
          "have too many to try them all. Name fewer ‹lanes›, give rules for some subgraphs "
          "(‹place›), or give a lane more memory (‹lane-memory›).");
    }
    throw Error(
        "No lane has memory for all weights; name more ‹lanes›, or give a lane more memory "
        "(‹lane-memory›).");
  }

  // Adds rules of the user for several outputs, where the lane has room for the head too.
  void add_head_rules(const Kind& head, std::vector<plan::Placement>* rules) {
    for (const plan::Placement& rule : request_.forced) {
      const bool is_of_head = rule.subgraph.empty() || rule.subgraph == head.name;
      const size_t subgraph = head.subgraphs.front();
      if (!is_of_head || rule.phase == plan::Phase::kPrompt) continue;
      // A rule that holds for one output too hides all rules behind it.
      if (rule.least_tokens < 2) return;
      const std::vector<int> copies =
          weight_copies_.of(rule.lane, subgraphs_[subgraph], plan::Shape());
      if (!memory_.has_room(rule.lane, copies)) continue;
      memory_.hold(rule.lane, copies);
      rules->push_back({head.name, rule.least_tokens, rule.lane});
      rules->back().mixes_classes = rule.mixes_classes;
    }
  }

  // Adds rules for executables of at least the shape's rows, one for each stretch of blocks on one
  // lane. A rule holds for the first blocks, and the first rule that matches counts.
  void add_rules(plan::Shape shape, const std::vector<int>& lanes,
                 std::vector<plan::Placement>* rules) {
    const bool by_phase = request_.has_rules_of_phases;
    const bool is_smallest =
        std::none_of(request_.shapes.begin(), request_.shapes.end(), [&](const plan::Shape& other) {
          return other.n_rows < shape.n_rows && (!by_phase || other.phase == shape.phase);
        });
    for (const size_t k : by_weight_) {
      const Kind& kind = kinds_[k];
      // A shape of the head counts outputs, not tokens, so one rule places the head for all shapes.
      // It is added once and stands behind the rules of the user.
      if (kind.is_head() && !(is_smallest && shape.phase == plan::Phase::kStep)) continue;
      if (kind.is_head()) add_head_rules(kind, rules);
      plan::Placement rule{kind.name, is_smallest ? 0 : shape.n_rows};
      rule.mixes_classes = may_mix(kind);
      if (by_phase && !kind.is_head()) rule.phase = shape.phase;
      for (size_t i = 0; i < kind.subgraphs.size(); ++i) {
        const size_t next = i + 1;
        rule.lane = lanes[kind.subgraphs[i]];
        const bool is_last = next == kind.subgraphs.size();
        if (!is_last && lanes[kind.subgraphs[next]] == rule.lane) continue;
        rule.n_blocks =
            is_last ? plan::Placement::kAllBlocks : subgraphs_[kind.subgraphs[next]].block();
        rules->push_back(rule);
      }
    }
  }

  static constexpr int kNone = -1, kSeveral = -2;

  int n_lanes_;
  const TimeModel& times_;
  const TimeModel& apart_times_;
  const PlaceRequest& request_;
  std::vector<lanes::Subgraph> subgraphs_;  // are in the order of a pass
  std::vector<Kind> kinds_;
  std::vector<size_t> by_weight_;  // indices of kinds_, in the order in which kinds are placed
  // Have the times of the current shape, [lane][subgraph]: of kinds that are on one lane, and of
  // those that are on several.
  std::vector<std::vector<double>> us_, apart_us_;
  // Has the copies of weights of the current shape, [lane][subgraph].
  std::vector<std::vector<std::vector<int>>> copies_;
  WeightCopies weight_copies_;
  LaneMemory memory_;  // has what earlier shapes hold
  // The class of each subgraph in the shapes that are placed together; empty: any class.
  std::vector<std::string> classes_;
};

}  // namespace

PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<plan::PlannedLane>& lanes, const TimeModel& times,
                      const PlaceRequest& request) {
  return place(blueprint, weights, lanes, times, times, request);
}

PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<plan::PlannedLane>& lanes, const TimeModel& times,
                      const TimeModel& apart_times, const PlaceRequest& request) {
  TROIKA_ASSERT(!lanes.empty() && !request.shapes.empty());
  return Placer(blueprint, weights, lanes, times, apart_times, request).run();
}

}  // namespace troika::solve
