#include "solve/place.h"

#include <algorithm>

#include "base/error.h"

namespace troika::solve {
namespace {

// Subgraphs of one kind: they get one lane.
struct Kind {
  std::string name;
  std::vector<const lanes::Subgraph*> subgraphs;
  size_t weight_bytes = 0;         // of all of them
  std::vector<double> us_by_lane;  // all of them, at the number of tokens at hand
};

using Assignment = std::vector<int>;  // a lane for each kind

size_t bytes_of(const lanes::Subgraph& subgraph, const weights::Store& weights) {
  size_t bytes = 0;
  for (const model::Op& op : subgraph.ops) {
    if (op.kind != model::OpKind::kLinear && op.kind != model::OpKind::kExpertLinear) continue;
    const weights::Matrix& matrix = weights.matrix(op.weight);
    bytes += matrix.row_bytes * static_cast<size_t>(matrix.n_rows);
  }
  return bytes;
}

class Placer {
 public:
  Placer(const model::Blueprint& blueprint, const weights::Store& weights,
         const std::vector<LaneFacts>& lanes, const TaskTimes& times, const PlaceRequest& request)
      : lanes_(lanes),
        times_(times),
        request_(request),
        subgraphs_(schedule::cut_into_subgraphs(blueprint, request.is_cut_at_norms)) {
    for (const lanes::Subgraph& subgraph : subgraphs_) {
      auto kind = std::find_if(kinds_.begin(), kinds_.end(),
                               [&](const Kind& k) { return k.name == subgraph.name; });
      if (kind == kinds_.end()) {
        kind = kinds_.insert(kinds_.end(), Kind{subgraph.name, {}, 0, {}});
      }
      kind->subgraphs.push_back(&subgraph);
      kind->weight_bytes += bytes_of(subgraph, weights);
      order_.push_back(static_cast<size_t>(kind - kinds_.begin()));
    }
  }

  PlacementChoice run() {
    PlacementChoice choice;
    choice.placements = request_.forced;
    choice.weight_bytes.assign(lanes_.size(), 0);
    held_.assign(lanes_.size(), std::vector<size_t>(kinds_.size(), 0));
    // Large shapes first: their rules are asked first.
    std::vector<plan::Shape> shapes = request_.shapes;
    std::stable_sort(shapes.begin(), shapes.end(), [](const plan::Shape& a, const plan::Shape& b) {
      return a.n_rows > b.n_rows;
    });
    for (const plan::Shape& shape : shapes) {
      measure(shape);
      const Assignment best = search(shape);
      ShapeChoice found;
      found.shape = shape;
      found.us = pass_us(best);
      for (size_t k = 0; k < kinds_.size(); ++k) found.lanes[kinds_[k].name] = best[k];
      for (int lane = 0; lane < n_lanes(); ++lane) {
        found.single_lane_us.push_back(pass_us(Assignment(kinds_.size(), lane)));
      }
      choice.shapes.push_back(found);
      add_rules(shape, best, &choice);
    }
    std::reverse(choice.shapes.begin(), choice.shapes.end());
    return choice;
  }

 private:
  int n_lanes() const { return static_cast<int>(lanes_.size()); }

  // The head runs for one row, whatever the number of tokens.
  static plan::Shape shape_for(const Kind& kind, plan::Shape shape) {
    return kind.name == "head" ? plan::Shape() : shape;
  }

  void measure(plan::Shape shape) {
    const int context = std::max(shape.n_rows, shape.n_rows == 1 ? request_.decode_context : 0);
    for (Kind& kind : kinds_) {
      kind.us_by_lane.clear();
      for (int lane = 0; lane < n_lanes(); ++lane) {
        double us = 0.0;
        for (const lanes::Subgraph* subgraph : kind.subgraphs) {
          us += times_.task_us(lane, *subgraph, shape_for(kind, shape), context);
        }
        kind.us_by_lane.push_back(us);
      }
    }
  }

  double pass_us(const Assignment& lanes) const {
    double us = 0.0;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      us += kinds_[k].us_by_lane[static_cast<size_t>(lanes[k])];
    }
    for (size_t i = 1; i < order_.size(); ++i) {
      us += times_.handover_us(lanes[order_[i - 1]], lanes[order_[i]]);
    }
    return us;
  }

  // The lane that rules of the user fix for a kind; -1: none does.
  int forced_lane(const Kind& kind, plan::Shape shape) const {
    for (const plan::Placement& rule : request_.forced) {
      if (!rule.subgraph.empty() && rule.subgraph != kind.name) continue;
      if (rule.holds_for(shape_for(kind, shape), -1)) return rule.lane;
    }
    return -1;
  }

  // All assignments: seven kinds at most, and few lanes.
  Assignment search(plan::Shape shape) const {
    std::vector<std::vector<int>> allowed;
    for (const Kind& kind : kinds_) {
      const int forced = forced_lane(kind, shape);
      allowed.emplace_back();
      for (int lane = 0; lane < n_lanes(); ++lane) {
        if (forced < 0 || lane == forced) allowed.back().push_back(lane);
      }
    }
    std::vector<size_t> at(kinds_.size(), 0);
    Assignment best;
    double best_us = 0.0;
    while (true) {
      Assignment lanes;
      for (size_t k = 0; k < kinds_.size(); ++k) lanes.push_back(allowed[k][at[k]]);
      const double us = pass_us(lanes);
      if (best.empty() || us < best_us) {
        best = lanes;
        best_us = us;
      }
      size_t k = 0;
      while (k < at.size() && ++at[k] == allowed[k].size()) at[k++] = 0;
      if (k == at.size()) return best;
    }
  }

  // The next best lane for what does not fit.
  int other_lane(const Kind& kind, int full) const {
    int best = -1;
    for (int lane = 0; lane < n_lanes(); ++lane) {
      const bool is_limited = lanes_[static_cast<size_t>(lane)].memory_limit_bytes != SIZE_MAX;
      if (lane == full || is_limited) continue;
      if (best < 0 ||
          kind.us_by_lane[static_cast<size_t>(lane)] < kind.us_by_lane[static_cast<size_t>(best)]) {
        best = lane;
      }
    }
    if (best >= 0) return best;
    throw Error(
        "No lane has memory for all weights; give another lane, as in ‹lanes› \"cpu;npu\".");
  }

  // Ordered by arithmetic per block: what gains most from a fast lane is placed first. The head is
  // used once a pass: last.
  std::vector<size_t> by_weight() const {
    std::vector<size_t> order(kinds_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    const auto key = [&](size_t k) {
      const double n_blocks = static_cast<double>(kinds_[k].subgraphs.size());
      return std::pair(kinds_[k].name != "head",
                       static_cast<double>(kinds_[k].weight_bytes) / n_blocks);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) > key(b); });
    return order;
  }

  // How many blocks of a kind fit beside what the lane holds of the others (N9).
  int blocks_that_fit(size_t k, int lane) const {
    const std::vector<size_t>& held = held_[static_cast<size_t>(lane)];
    size_t others = 0;
    for (size_t other = 0; other < held.size(); ++other) others += other == k ? 0 : held[other];
    const size_t limit = lanes_[static_cast<size_t>(lane)].memory_limit_bytes;
    const size_t left = limit - std::min(limit, others);
    if (kinds_[k].weight_bytes <= left) return plan::Placement::kAllBlocks;
    return static_cast<int>(left / (kinds_[k].weight_bytes / kinds_[k].subgraphs.size()));
  }

  void hold(size_t k, int lane, int n_blocks) {
    const Kind& kind = kinds_[k];
    const size_t bytes =
        n_blocks == plan::Placement::kAllBlocks
            ? kind.weight_bytes
            : kind.weight_bytes / kind.subgraphs.size() * static_cast<size_t>(n_blocks);
    size_t& held = held_[static_cast<size_t>(lane)][k];
    held = std::max(held, bytes);
  }

  // Rules for executables of at least so many tokens; of a kind that does not fit, as many blocks
  // as do, and the rest elsewhere.
  void add_rules(plan::Shape shape, const Assignment& lanes, PlacementChoice* choice) {
    const bool by_phase = request_.has_rules_of_phases;
    const bool is_smallest =
        std::none_of(request_.shapes.begin(), request_.shapes.end(), [&](const plan::Shape& other) {
          return other.n_rows < shape.n_rows && (!by_phase || other.phase == shape.phase);
        });
    for (const size_t k : by_weight()) {
      const Kind& kind = kinds_[k];
      // The shapes of the head count outputs, so one rule holds for all.
      const bool is_head = kind.name == "head";
      if (is_head && !(is_smallest && shape.phase == plan::Phase::kStep)) continue;
      plan::Placement rule{kind.name, is_smallest ? 0 : shape.n_rows, lanes[k],
                           blocks_that_fit(k, lanes[k])};
      if (by_phase && !is_head) rule.phase = shape.phase;
      hold(k, rule.lane, rule.n_blocks);
      if (rule.n_blocks > 0) choice->placements.push_back(rule);
      if (rule.n_blocks == plan::Placement::kAllBlocks) continue;
      rule.n_blocks = plan::Placement::kAllBlocks;
      rule.lane = other_lane(kind, lanes[k]);
      hold(k, rule.lane, rule.n_blocks);
      choice->placements.push_back(rule);
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      choice->weight_bytes[lane] = 0;
      for (const size_t bytes : held_[lane]) choice->weight_bytes[lane] += bytes;
    }
  }

  const std::vector<LaneFacts>& lanes_;
  const TaskTimes& times_;
  const PlaceRequest& request_;
  std::vector<lanes::Subgraph> subgraphs_;
  std::vector<Kind> kinds_;
  std::vector<size_t> order_;              // the kind of each subgraph, in the order of a pass
  std::vector<std::vector<size_t>> held_;  // bytes of weights, [lane][kind]
};

}  // namespace

PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<LaneFacts>& lanes, const TaskTimes& times,
                      const PlaceRequest& request) {
  TROIKA_ASSERT(!lanes.empty() && !request.shapes.empty());
  return Placer(blueprint, weights, lanes, times, request).run();
}

}  // namespace troika::solve
